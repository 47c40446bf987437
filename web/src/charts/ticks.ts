// Round numbers on an axis of durations, in seconds: 1 2 5 10 15 30 s, 1 2 5 10 15 30 min, 1 2 6 12 h, days.

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200, 86400];

export function ticks(from: number, to: number, most: number): number[] {
  const rough = (to - from) / Math.max(1, most);
  let step: number;
  if (rough <= 0.5) {
    const p = 10 ** Math.floor(Math.log10(rough || 1e-3));
    step = [1, 2, 5, 10].map((m) => m * p).find((s) => s >= rough) ?? rough;
  } else step = STEPS.find((s) => s >= rough) ?? Math.ceil(rough / 86400) * 86400;
  const out: number[] = [];
  for (let i = Math.ceil(from / step); i * step <= to && out.length < 500; i++) out.push(i * step);
  return out;
}
