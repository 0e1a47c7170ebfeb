export const graph = {
  nodes: "Nodes",
  find: "Find a node",
  count: (nodes: string, edges: string) => `Nodes: ${nodes}, edges: ${edges}`,
  found: (found: string, all: string) => `${found} of ${all}`,
  placing: "Laying out the graph…",
  failed: "This browser could not lay out the graph; the list has all nodes.",
  canvas: (nodes: string) => `Graph with ${nodes} nodes. The arrow keys select a node; the list has the same nodes.`,
  selected: (name: string, state: string) => (state ? `${name}: ${state}` : name),
  tools: "View",
  zoomIn: "Zoom in",
  zoomOut: "Zoom out",
  fit: "Fit",
};
