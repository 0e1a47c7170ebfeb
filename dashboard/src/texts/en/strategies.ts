export const strategies = {};
