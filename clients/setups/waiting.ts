/** The pause before the next attempt to connect. It increases up to 30 s, and is random so that clients do not connect at the same time. */
export function waiting(attempts: number): Promise<void> {
  const longest = Math.min(2000 * 2 ** attempts, 30_000);
  return new Promise((resolve) => setTimeout(resolve, (longest * (1 + Math.random())) / 2));
}
