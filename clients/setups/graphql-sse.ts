import { createClient } from "graphql-sse";
import { signed } from "./signed.ts";
import type { Token } from "./token.ts";
import { waiting } from "./waiting.ts";

export function overEvents(url: string, token: Token) {
  return createClient({ url, fetchFn: signed(token), retryAttempts: Infinity, retry: waiting });
}
