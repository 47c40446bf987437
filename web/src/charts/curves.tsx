// Lines over steps or time, by uPlot. Values on hover stand below the plot and are its legend; the
// last values are in the table for readers.

import { useEffect, useMemo, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { words } from '../base/words';
import { duration, value } from '../base/format';
import { colour, colours } from '../base/theme';

export interface Line {
  name: string;
  /** The time is since the first point, where it is known. */
  points: [step: number, value: number | null, time_ns?: number | null][];
}

export const lineColour = (i: number) => colour(`--c${(i % 8) + 1}`);

/** Exponential smoothing; gaps stay gaps. */
export function smoothed(
  ys: (number | null | undefined)[],
  by: number,
): (number | null | undefined)[] {
  if (by <= 0) return ys;
  let last: number | null = null;
  return ys.map((y) => {
    if (y === null || y === undefined) return y;
    last = last === null ? y : last * by + y * (1 - by);
    return last;
  });
}

/** All lines over one axis: uPlot's columns. */
export function join(lines: Line[], byTime: boolean): (number | null)[][] {
  const timed = (p: Line['points'][number]) => !byTime || (p[2] !== undefined && p[2] !== null);
  const at = (p: Line['points'][number]) => (byTime ? (p[2] ?? 0) / 1e9 : p[0]);
  const xs = [...new Set(lines.flatMap((l) => l.points.filter(timed).map(at)))].sort(
    (a, b) => a - b,
  );
  const index = new Map(xs.map((x, i) => [x, i]));
  return [
    xs,
    ...lines.map((l) => {
      const ys = new Array<number | null>(xs.length).fill(null);
      for (const p of l.points.filter(timed)) ys[index.get(at(p))!] = p[1];
      return ys;
    }),
  ];
}

export function Curves({
  title,
  lines,
  byTime,
  log,
  smooth,
  height = 220,
}: {
  title: string;
  lines: Line[];
  byTime: boolean;
  log: boolean;
  smooth: number;
  height?: number;
}) {
  const host = useRef<HTMLDivElement>(null);
  const legend = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const data = useMemo(() => {
    const [xs, ...ys] = join(lines, byTime);
    return [
      xs ?? [],
      ...ys.map((y) =>
        smoothed(y, smooth).map((v) => (log && v !== null && v !== undefined && v <= 0 ? null : v)),
      ),
    ] as uPlot.AlignedData;
  }, [lines, byTime, smooth, log]);
  const key = JSON.stringify([lines.map((l) => l.name), byTime, log, colours.value]);

  useEffect(() => {
    const el = host.current;
    const names = legend.current;
    if (!el || !names) return;
    const axis = {
      stroke: colour('--text-3'),
      grid: { stroke: colour('--line'), width: 1 },
      ticks: { show: false },
      font: `11px ${colour('--sans')}`,
    };
    const p = new uPlot(
      {
        width: Math.max(200, el.clientWidth),
        height,
        padding: [8, 12, 0, 0],
        scales: { x: { time: false }, y: { distr: log ? 3 : 1 } },
        axes: [
          {
            ...axis,
            size: 28,
            values: (_u, vs) => vs.map((v) => (byTime ? duration(v * 1e9) : value(v))),
          },
          { ...axis, size: 56, values: (_u, vs) => vs.map((v) => (v === null ? '' : value(v))) },
        ],
        cursor: { points: { size: 6 }, focus: { prox: 24 } },
        focus: { alpha: 0.3 },
        legend: { live: true, mount: (_u, table) => names.append(table) },
        series: [
          {
            label: byTime ? 'time' : 'step',
            value: (_u, v) =>
              v === null || v === undefined ? '' : byTime ? duration(v * 1e9) : value(v),
          },
          ...lines.map((l, i) => ({
            label: l.name,
            stroke: lineColour(i),
            width: 1.5,
            spanGaps: true,
            points: { show: l.points.length < 2 },
            value: (_u: uPlot, v: number | null) => (v === null || v === undefined ? '' : value(v)),
          })),
        ],
      },
      data,
      el,
    );
    plot.current = p;
    const watch = new ResizeObserver(() => {
      p.setSize({ width: Math.max(200, el.clientWidth), height });
      // What scrolls is in reach of the keyboard.
      if (names.scrollHeight > names.clientHeight) names.tabIndex = 0;
      else names.removeAttribute('tabindex');
    });
    watch.observe(el);
    return () => {
      watch.disconnect();
      p.destroy();
      names.replaceChildren();
      plot.current = null;
    };
  }, [key]);

  useEffect(() => {
    plot.current?.setData(data);
  }, [data]);

  return (
    <figure class="card chart">
      <figcaption>{title}</figcaption>
      <div
        ref={host}
        role="img"
        aria-label={`${title}: ${lines.map((l) => `${l.name} ${value(last(l))}`).join(', ')}`}
      />
      <div ref={legend} class="legend" role="group" aria-label={words.compare.legend(title)} />
    </figure>
  );
}

function last(l: Line): number | null {
  for (let i = l.points.length - 1; i >= 0; i--)
    if (l.points[i]![1] !== null) return l.points[i]![1];
  return null;
}
