export const deadLetters = {};
