export const approvals = {};
