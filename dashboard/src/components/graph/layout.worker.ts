// Lays out one graph outside of the page's thread.

import { layoutGraph, type LayoutInput } from "./layout";

addEventListener("message", ({ data }: MessageEvent<LayoutInput>) => {
  const layout = layoutGraph(data);
  const buffers = [layout.x, layout.y, layout.points, layout.pointStart].map((each) => each.buffer);
  postMessage(layout, { transfer: buffers });
});
