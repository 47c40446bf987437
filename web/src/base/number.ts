/** 12,345: as toLocaleString('en') of a whole number, which loads the browser's tables first. */
export function grouped(n: number): string {
  if (!Number.isInteger(n) || Math.abs(n) >= 1e21) return n.toLocaleString('en');
  return String(n).replace(/\B(?=(?:\d{3})+$)/g, ',');
}
