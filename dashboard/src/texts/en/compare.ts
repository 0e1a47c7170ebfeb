export const compare = {};
