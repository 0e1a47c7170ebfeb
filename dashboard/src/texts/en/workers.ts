export const workers = {};
