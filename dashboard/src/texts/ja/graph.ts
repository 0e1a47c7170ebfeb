export const graph = {};
