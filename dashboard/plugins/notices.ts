// Collects the licences of all packages whose code is in the bundles, and writes them to static/notices.txt.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Plugin } from "vite";

export const noticesFile = "static/notices.txt";

const licenceFile = /^(licen[cs]e|copying|notice)/i;
// The build adds code of its own under names that are no files.
const virtualPackages: Record<string, string> = { "\0vite/": "vite", "\0rolldown/": "rolldown" };
// Vite's file goes on with the licences of programs that Vite contains, and a bundle does not.
const otherLicences = /\n# Licenses of bundled dependencies[^]*$/;

export function notices(root: string): { page: Plugin; worker: Plugin } {
  const folders = new Set<string>();
  const collect: Plugin["generateBundle"] = (_options, bundle) => {
    for (const part of Object.values(bundle)) {
      if (part.type === "chunk") part.moduleIds.forEach((id) => addPackage(id, root, folders));
    }
  };
  return {
    // Bundles of workers are made first, while the page is transformed.
    worker: { name: "notices-of-workers", apply: "build", generateBundle: collect },
    page: {
      name: "notices",
      apply: "build",
      generateBundle(...given) {
        collect.apply(this, given);
        this.emitFile({ type: "asset", fileName: noticesFile, source: [...folders].sort().map(notice).join("\n") });
      },
    },
  };
}

function addPackage(id: string, root: string, folders: Set<string>): void {
  for (const [prefix, name] of Object.entries(virtualPackages)) {
    if (id.startsWith(prefix)) folders.add(join(root, "node_modules", name));
  }
  const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id);
  if (found?.[1] !== undefined) folders.add(found[1]);
}

function notice(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const files = readdirSync(folder).filter((file) => licenceFile.test(file));
  if (files.length === 0) throw new Error(`${name} is in the bundle and has no licence file`);
  const texts = files.map((file) => readFileSync(join(folder, file), "utf8").replace(otherLicences, "").trim());
  return `${name} ${version} (${license})\n\n${texts.join("\n\n")}\n\n${"-".repeat(80)}\n`;
}
