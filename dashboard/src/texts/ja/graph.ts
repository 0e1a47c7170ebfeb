export const graph = {
  nodes: "node",
  find: "node を検索",
  count: (nodes: string, edges: string) => `node: ${nodes}、edge: ${edges}`,
  found: (found: string, all: string) => `${all} 件中 ${found} 件`,
  placing: "グラフを配置しています…",
  failed: "このブラウザーではグラフを配置できませんでした。すべての node は一覧にあります。",
  canvas: (nodes: string) => `${nodes} 個の node のグラフ。矢印キーで node を選択できます。一覧にも同じ node があります。`,
  selected: (name: string, state: string) => (state ? `${name}: ${state}` : name),
  tools: "表示",
  zoomIn: "拡大",
  zoomOut: "縮小",
  fit: "全体を表示",
};
