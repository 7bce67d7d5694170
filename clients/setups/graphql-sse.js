import { createClient } from "graphql-sse";
import { signed } from "./signed.js";

export function overEvents(url, token) {
  return createClient({ url, fetchFn: signed(token), retryAttempts: Infinity });
}
