// Curves of what tasks measure while they run, and the last values.

import { useEffect } from 'preact/hooks';
import * as api from '../../api';
import { useLoad } from '../../base/load';
import { value } from '../../base/format';
import { place, setQuery } from '../../base/route';
import { words } from '../../base/words';
import { Curves } from '../../charts/curves';
import { Check, Empty, Segmented, Skeleton, Trouble } from '../../parts/bits';
import { FirstOnly } from './firstonly';
import type { RunModel } from './model';
import { taskHref } from './run';

export default function Metrics({ model }: { model: RunModel }) {
  const id = model.run?.id ?? model.id;
  const series = useLoad(
    (s) => api.series(id, { project: model.project, points: 1000 }, s),
    [id],
    true,
  );
  const last = useLoad(
    (s) => api.runMetrics(id, { project: model.project ?? '', limit: 500 }, s),
    [id],
    true,
  );
  useEffect(() => {
    if (!model.running) return;
    const t = setInterval(() => {
      if (document.hidden) return;
      series.again();
      last.again();
    }, 3000);
    return () => clearInterval(t);
  }, [model.running]);
  const names = [...new Set((series.value?.series ?? []).map((s) => s.metric))];
  const tables = Object.entries(last.value?.metrics ?? {});
  if (series.first || last.first) return <Skeleton />;
  if (last.problem) return <Trouble problem={last.problem} again={last.again} />;
  if (names.length === 0 && tables.length === 0)
    return (
      <Empty
        title={words.run.metricsNone}
        hint={words.run.metricsNoneHint}
        command={words.run.metricsCommand}
      />
    );
  return (
    <div class="stack wide">
      {names.length > 0 && (
        <>
          <ChartOptions timed={hasTimes(series.value?.series)} />
          <div class="charts">
            {names.map((m) => (
              <Curves
                key={m}
                title={m}
                lines={(series.value?.series ?? [])
                  .filter((s) => s.metric === m)
                  .map((s) => ({ name: s.task, points: s.points }))}
                {...curveOptions()}
              />
            ))}
          </div>
        </>
      )}
      {tables.length > 0 && (
        <div class="card tablewrap">
          <table>
            <thead>
              <tr>
                <th scope="col">{words.run.taskCols.task}</th>
                <th scope="col">{words.run.taskCols.metric}</th>
                <th scope="col" class="num">
                  {words.run.taskCols.value}
                </th>
              </tr>
            </thead>
            <tbody>
              {tables.flatMap(([task, m]) =>
                Object.entries(m as Record<string, number | null>).map(([k, v], i) => (
                  <tr key={`${task} ${k}`}>
                    <td>{i === 0 && <a href={taskHref(model.id, task)}>{task}</a>}</td>
                    <th scope="row">{k}</th>
                    <td class="num">{value(v)}</td>
                  </tr>
                )),
              )}
            </tbody>
          </table>
          {last.value?.next && <FirstOnly run={model.id} n={tables.length} />}
        </div>
      )}
    </div>
  );
}

/** How the address says that curves are drawn. */
export const curveOptions = () => {
  const q = place.value.query;
  return {
    byTime: q.get('x') === 'time',
    log: q.get('log') === '1',
    smooth: Number(q.get('smooth') ?? 0),
  };
};

/** Whether a curve can be drawn over time: its program wrote when it measured. */
export const hasTimes = (series: api.Series[] | undefined) =>
  (series ?? []).some((s) => s.points.some((p) => p[2] !== undefined && p[2] !== null));

export function ChartOptions({ timed }: { timed: boolean }) {
  const q = place.value.query;
  return (
    <div class="row">
      <Segmented
        label={words.compare.xAxis}
        value={q.get('x') === 'time' ? 'time' : 'step'}
        options={
          [
            ['step', words.compare.byStep],
            ['time', words.compare.byTime],
          ] as const
        }
        onChange={(v) => setQuery({ x: v === 'time' ? 'time' : null })}
      />
      {!timed && q.get('x') === 'time' && <span class="quiet">{words.compare.noTimes}</span>}
      <Check
        label={words.compare.log}
        checked={q.get('log') === '1'}
        onChange={(on) => setQuery({ log: on })}
      />
      <label class="check">
        {words.compare.smooth}
        <input
          type="range"
          min="0"
          max="0.95"
          step="0.05"
          value={q.get('smooth') ?? '0'}
          onInput={(e) => setQuery({ smooth: Number(e.currentTarget.value) || null })}
        />
      </label>
    </div>
  );
}
