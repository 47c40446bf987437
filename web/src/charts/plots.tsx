// Scatter and parallel coordinates, as SVG: fifty runs are few enough for the page, and each point
// is a link.

import { useLayoutEffect, useState } from 'preact/hooks';
import { value } from '../base/format';

/** On a phone, what is drawn is half as wide, so that its words stay as large as all others. */
function useWidth(): number {
  const [narrow, setNarrow] = useState(false);
  useLayoutEffect(() => {
    const query = matchMedia('(max-width: 560px)');
    const look = () => setNarrow(query.matches);
    look();
    query.addEventListener('change', look);
    return () => query.removeEventListener('change', look);
  }, []);
  return narrow ? 380 : 760;
}
/** The end of a name that has so much room: there, names of tasks and metrics differ. */
const fitting = (name: string, px: number) => {
  const n = Math.max(4, Math.floor(px / 6.5));
  return name.length > n ? `…${name.slice(1 - n)}` : name;
};
const H = 320;
const M = { l: 64, r: 20, t: 16, b: 40 };

function extent(vs: (number | null | undefined)[], log: boolean): [number, number] {
  const ns = vs.filter(
    (v): v is number => typeof v === 'number' && Number.isFinite(v) && (!log || v > 0),
  );
  if (ns.length === 0) return [0, 1];
  const a = Math.min(...ns);
  const b = Math.max(...ns);
  return a === b ? [a - (Math.abs(a) || 1) * 0.1, b + (Math.abs(b) || 1) * 0.1] : [a, b];
}

const scaleOf =
  ([a, b]: [number, number], from: number, to: number, log: boolean) =>
  (v: number) => {
    const f = (x: number) => (log ? Math.log(Math.max(x, 1e-300)) : x);
    return from + ((f(v) - f(a)) / (f(b) - f(a) || 1)) * (to - from);
  };

export function Scatter({
  x,
  y,
  names,
  hrefs,
  xName,
  yName,
  log,
}: {
  x: (number | null)[];
  y: (number | null)[];
  names: string[];
  hrefs: string[];
  xName: string;
  yName: string;
  log: boolean;
}) {
  const W = useWidth();
  const ex = extent(x, log);
  const ey = extent(y, false);
  const sx = scaleOf(ex, M.l + 16, W - M.r - 16, log && ex[0] > 0);
  const sy = scaleOf(ey, H - M.b - 10, M.t + 10, false);
  return (
    <figure class="card chart">
      <figcaption>
        {yName} / {xName}
      </figcaption>
      <svg class="plot" viewBox={`0 0 ${W} ${H}`} role="group" aria-label={`${yName} / ${xName}`}>
        <line class="axis" x1={M.l} y1={H - M.b} x2={W - M.r} y2={H - M.b} />
        <line class="axis" x1={M.l} y1={M.t} x2={M.l} y2={H - M.b} />
        {[ey[0], (ey[0] + ey[1]) / 2, ey[1]].map((v) => (
          <text key={v} x={M.l - 8} y={sy(v) + 4} text-anchor="end">
            {value(v)}
          </text>
        ))}
        {[ex[0], ex[1]].map((v) => (
          <text key={v} x={sx(v)} y={H - M.b + 16} text-anchor="middle">
            {value(v)}
          </text>
        ))}
        <text x={(W + M.l) / 2} y={H - 6} text-anchor="middle">
          {xName}
        </text>
        {names.map((n, i) => {
          const a = x[i];
          const b = y[i];
          if (a === null || a === undefined || b === null || b === undefined) return null;
          return (
            <a
              key={i}
              href={hrefs[i]}
              aria-label={`${n}: ${xName} ${value(a)}, ${yName} ${value(b)}`}
            >
              <circle class={`point c${(i % 8) + 1}`} cx={sx(a)} cy={sy(b)} r="6">
                <title>{`${n}\n${xName} ${value(a)}\n${yName} ${value(b)}`}</title>
              </circle>
            </a>
          );
        })}
      </svg>
    </figure>
  );
}

export function Parallel({
  runs,
  params,
  metrics,
  label,
}: {
  runs: string[];
  params: Record<string, (number | null)[]>;
  metrics: Record<string, (number | null)[]>;
  label: string;
}) {
  const [over, setOver] = useState<number | null>(null);
  const W = useWidth();
  const axes = [
    ...Object.entries(params).slice(0, 8),
    ...Object.entries(metrics)
      .filter(([, v]) => new Set(v).size > 1)
      .slice(0, 4),
  ];
  const step = (W - M.l - M.r - 40) / Math.max(1, axes.length - 1);
  const at = axes.map(([k, vs], i) => {
    const e = extent(vs, false);
    const positive = vs.every((v) => v === null || v > 0) && e[1] / Math.max(e[0], 1e-300) >= 100;
    return { k, vs, e, x: M.l + i * step, s: scaleOf(e, H - M.b, M.t + 20, positive) };
  });
  return (
    <figure class="card chart">
      <svg
        class="plot"
        viewBox={`0 0 ${W} ${H}`}
        role="img"
        aria-label={`${label}: ${axes.map(([k]) => k).join(', ')}`}
      >
        {at.map((a) => (
          <g key={a.k}>
            <line class="axis" x1={a.x} y1={M.t + 20} x2={a.x} y2={H - M.b} />
            <text x={a.x} y={M.t - 2} text-anchor="middle" class="strong">
              <title>{a.k}</title>
              {fitting(a.k, Math.min(step, 2 * M.l))}
            </text>
            <text x={a.x} y={H - M.b + 16} text-anchor="middle">
              {value(a.e[0])}
            </text>
            <text x={a.x} y={M.t + 14} text-anchor="middle">
              {value(a.e[1])}
            </text>
          </g>
        ))}
        {runs.map((r, i) => {
          const d = at
            .map((a) => ({ x: a.x, v: a.vs[i], s: a.s }))
            .filter(
              (a): a is { x: number; v: number; s: (v: number) => number } =>
                typeof a.v === 'number',
            )
            .map((a, k) => `${k ? 'L' : 'M'}${a.x} ${a.s(a.v)}`)
            .join('');
          return (
            <path
              key={i}
              class={`path c${(i % 8) + 1} ${over !== null && over !== i ? 'faint' : ''}`}
              d={d}
              onPointerEnter={() => setOver(i)}
              onPointerLeave={() => setOver(null)}
            >
              <title>{r}</title>
            </path>
          );
        })}
      </svg>
      <ul class="legend">
        {runs.map((r, i) => (
          <li key={i} onPointerEnter={() => setOver(i)} onPointerLeave={() => setOver(null)}>
            <i class={`swatch s${(i % 8) + 1}`} /> {r}
          </li>
        ))}
      </ul>
    </figure>
  );
}
