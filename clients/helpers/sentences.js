// What `node --test` reports as one line per sentence; what failed says why.

import { inspect } from "node:util";

export default async function* sentences(events) {
  for await (const { type, data } of events) {
    if (data?.details?.type === "suite") continue;
    if (type === "test:pass") yield `  ok    ${data.name}\n`;
    if (type === "test:fail") yield `  FAIL  ${data.name}\n${inspect(data.details.error.cause)}\n`;
    if (type === "test:stderr" || type === "test:stdout") yield data.message;
  }
}
