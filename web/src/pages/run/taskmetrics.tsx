// The curves of one task, growing while it runs.

import { useEffect, useMemo } from 'preact/hooks';
import * as api from '../../api';
import type { TaskDetail } from '../../api';
import { useLoad } from '../../base/load';
import { words } from '../../base/words';
import { Curves } from '../../charts/curves';
import { Empty } from '../../parts/bits';
import { ChartOptions, curveOptions, hasTimes } from './metrics';
import type { RunModel } from './model';
import { Pairs } from './task';

export default function TaskMetrics({
  model,
  d,
  running,
}: {
  model: RunModel;
  d: TaskDetail;
  running: boolean;
}) {
  const id = model.run?.id ?? model.id;
  const series = useLoad(
    d.series.length || d.state === 'running'
      ? (s) => api.series(id, { project: model.project, task: d.task, points: 1000 }, s)
      : null,
    [id, d.task, d.series.length, d.state],
    true,
  );
  useEffect(() => {
    if (!running) return;
    const t = setInterval(() => !document.hidden && series.again(), 2000);
    return () => clearInterval(t);
  }, [running]);
  const names = useMemo(
    () => [...new Set((series.value?.series ?? []).map((s) => s.metric))],
    [series.value],
  );
  const fetched = d.attempts_list.some((a) => a.image); // it runs in a pod
  if (d.series.length + names.length === 0 && Object.keys(d.metrics).length === 0)
    return running && fetched ? (
      <p class="second">{words.run.metricsFetched}</p>
    ) : (
      <Empty
        title={words.run.metricsNone}
        hint={words.run.metricsNoneHint}
        command={words.run.metricsCommand}
      />
    );
  return (
    <div class="stack wide">
      {running && fetched && <p class="second">{words.run.metricsFetched}</p>}
      {names.length > 0 && <ChartOptions timed={hasTimes(series.value?.series)} />}
      {names.map((m) => (
        <Curves
          key={m}
          title={m}
          lines={(series.value?.series ?? [])
            .filter((s) => s.metric === m && s.task === d.task)
            .map((s) => ({ name: s.task, points: s.points }))}
          {...curveOptions()}
          height={180}
        />
      ))}
      {Object.keys(d.metrics).length > 0 && <Pairs title={words.compare.metrics} of={d.metrics} />}
    </div>
  );
}
