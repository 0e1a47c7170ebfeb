// The layout of a graph, computed in a worker. States of nodes may change without a new one.

import { useEffect, useState } from "preact/hooks";
import type { Layout, LayoutInput } from "./layout";
import type { GraphEdge, GraphNode } from "./index";

/** null: not there yet. "failed": the browser could not run the worker. */
export type LayoutState = { readonly key: string; readonly layout: Layout } | null | "failed";

/** The same for graphs with the same nodes and edges. */
export function structureOf(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): string {
  return JSON.stringify([nodes.map((node) => node.id), edges.map((edge) => [edge.from, edge.to])]);
}

export function layoutInput(nodes: readonly GraphNode[], edges: readonly GraphEdge[]): LayoutInput {
  const indexOf = new Map(nodes.map((node, index) => [node.id, index]));
  const flat = new Int32Array(edges.length * 2);
  edges.forEach((edge, index) => {
    flat[2 * index] = indexOf.get(edge.from) ?? -1;
    flat[2 * index + 1] = indexOf.get(edge.to) ?? -1;
  });
  return { nodeCount: nodes.length, edges: flat };
}

/** Keeps the last layout until the one of the new structure is there. */
export function useLayout(key: string, input: () => LayoutInput): LayoutState {
  const [state, setState] = useState<LayoutState>(null);
  useEffect(() => {
    const worker = new Worker(new URL("./layout.worker.ts", import.meta.url), { type: "module" });
    worker.onmessage = ({ data }: MessageEvent<Layout>) => {
      setState({ key, layout: data });
      worker.terminate();
    };
    worker.onerror = () => setState("failed");
    worker.postMessage(input());
    return () => worker.terminate();
  }, [key]);
  return state;
}
