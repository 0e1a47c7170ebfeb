import { defineConfig } from "vitest/config";
import { notices } from "./plugins/notices.ts";
import { precompress } from "./plugins/precompress.ts";

// The gateway that the development server passes API calls to.
const gateway = process.env["PYOCO_SERVER"] ?? "http://127.0.0.1:8000";

const licences = notices(import.meta.dirname);

export default defineConfig({
  // Relative: the gateway may serve the page below a path prefix, which is in the page's <base>.
  base: "./",
  build: {
    outDir: "../src/pyoco_server/http_api/dashboard_files",
    emptyOutDir: true,
    assetsDir: "static",
    target: "es2022",
    // A data: address would need an exception in the Content-Security-Policy.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  plugins: [licences.page, precompress()],
  worker: { format: "es", plugins: () => [licences.worker] },
  server: {
    proxy: { "^/(?!src/|node_modules/|@|$|index\\.html|static/)": { target: gateway, changeOrigin: true } },
  },
  test: { include: ["src/**/*.test.ts", "src/**/*.test.tsx"] },
});
