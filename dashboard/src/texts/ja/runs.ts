export const runs = {};
