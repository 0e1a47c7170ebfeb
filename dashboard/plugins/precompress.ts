// Writes .br and .gz beside each file of the build, so that the gateway compresses nothing.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import type { Plugin } from "vite";

// Below it an answer fits into one packet anyway.
const leastBytes = 1024;

export function precompress(): Plugin {
  let folder = "";
  return {
    name: "precompress",
    apply: "build",
    configResolved(config) {
      folder = join(config.root, config.build.outDir, config.build.assetsDir);
    },
    async closeBundle(error?: Error) {
      if (error !== undefined) return;
      for (const name of await readdir(folder)) {
        const path = join(folder, name);
        const content = await readFile(path);
        if (content.length < leastBytes) continue;
        const variants = {
          ".br": brotliCompressSync(content, { params: { [constants.BROTLI_PARAM_SIZE_HINT]: content.length } }),
          ".gz": gzipSync(content, { level: 9 }),
        };
        for (const [suffix, compressed] of Object.entries(variants)) {
          if (compressed.length < content.length) await writeFile(path + suffix, compressed);
        }
      }
    },
  };
}
