export const trusted = {
  generateHash: async (_, document) => document.__meta__.hash,
  enforcePersistedQueries: true,
  enableForMutation: true,
  enableForSubscriptions: true,
  preferGetForPersistedQueries: false,
};
