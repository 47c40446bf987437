// Weeks and months of the reader's own calendar. Days are made by date parts, never by adding 24
// hours: a day of a change of clocks has 23 or 25.

export interface Day {
  date: Date; // its beginning, local
  key: string; // 2026-11-27
  inMonth: boolean;
}

export const dayKey = (d: Date) =>
  `${d.getFullYear()}-${String(d.getMonth() + 1).padStart(2, '0')}-${String(d.getDate()).padStart(2, '0')}`;

export const addDays = (d: Date, n: number) =>
  new Date(d.getFullYear(), d.getMonth(), d.getDate() + n);

/** Monday first. */
export function weekOf(d: Date): Day[] {
  const monday = addDays(d, -((d.getDay() + 6) % 7));
  return Array.from({ length: 7 }, (_, i) => {
    const date = addDays(monday, i);
    return { date, key: dayKey(date), inMonth: true };
  });
}

/** Whole weeks that cover the month. */
export function monthOf(d: Date): Day[] {
  const first = new Date(d.getFullYear(), d.getMonth(), 1);
  const days: Day[] = [];
  let week = weekOf(first);
  do {
    days.push(...week.map((x) => ({ ...x, inMonth: x.date.getMonth() === d.getMonth() })));
    week = weekOf(addDays(week[6]!.date, 1));
  } while (week[0]!.date.getMonth() === d.getMonth());
  return days;
}

export function parseDay(text: string | null): Date | null {
  const m = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text ?? '');
  if (!m) return null;
  const d = new Date(Number(m[1]), Number(m[2]) - 1, Number(m[3]));
  return Number.isNaN(d.getTime()) ? null : d;
}
