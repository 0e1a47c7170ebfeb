export const flows = {};
