// The service that is tried, who calls it, and what they ask for again and again.

import { createPrivateKey, sign } from "node:crypto";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";

export const service = process.env.SERVICE_URL;
export const graphql = `${service}/graphql`;

export const caregiver = process.env.CAREGIVER_TOKEN; // Mara Lind
export const client = process.env.CLIENT_TOKEN; // Jonas Berg

const DAY = 24 * 60 * 60 * 1000;

/** Input of assignHomework: a book for a week from now on, in Mara's session with Jonas. */
export function homework(bookIds = ["2"]) {
  const [startDate, endDate] = [0, 7].map((days) => new Date(Date.now() + days * DAY).toISOString());
  return { sessionId: "1", bookIds, startDate, endDate };
}

/** The same by the legacy path, which runs whatever documents are trusted. */
export async function assign(bookIds = [2]) {
  const [startDate, endDate] = [0, 7].map((days) => new Date(Date.now() + days * DAY).toISOString().slice(0, 10));
  const answer = await fetch(`${service}/gateway/profile/caregiver/session/assignment`, {
    method: "PUT",
    headers: { authorization: `bearer ${caregiver}`, "content-type": "application/json" },
    body: JSON.stringify({ sessionId: 1, bookIds, startDate, startTime: "00:00", endDate, endTime: "20:00" }),
  });
  if (!answer.ok) throw new Error(await answer.text());
}

/** The first thing that is told. Nobody says when a subscription has begun: homework is assigned until then. */
export async function whileAssigning(told) {
  let waiting = true;
  const first = told.finally(() => (waiting = false));
  while (waiting) {
    await assign();
    await Promise.race([first, pause(100)]);
  }
  return first;
}

/** The service ends, and is there again, as under a service manager. */
export async function restart() {
  const before = await readFile(process.env.SERVICE_PID, "utf8");
  process.kill(Number(before), "SIGTERM");
  while ((await readFile(process.env.SERVICE_PID, "utf8")) === before) await pause(20);
}

/** The token of `caregiver`, but that it ends so many seconds from now. */
export async function endingSoon(seconds) {
  const pem = await readFile(join(dirname(process.env.SERVICE_PID), "development-key.pem"));
  const [head, claims] = caregiver.split(".");
  const exp = Math.floor(Date.now() / 1000) + seconds;
  const said = JSON.stringify({ ...JSON.parse(Buffer.from(claims, "base64url")), exp });
  const signed = `${head}.${Buffer.from(said).toString("base64url")}`;
  return `${signed}.${sign("RSA-SHA256", Buffer.from(signed), createPrivateKey(pem)).toString("base64url")}`;
}

export const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
