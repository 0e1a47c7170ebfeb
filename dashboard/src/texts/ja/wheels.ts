export const wheels = {};
