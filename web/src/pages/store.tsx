// How large the store is, what collecting would free, how often results were found; pods and what waits.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import { bytes, count, duration } from '../base/format';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { part, url } from '../base/route';
import { words } from '../base/words';
import { whyNot } from '../base/session';
import { Action, Card, Copy, Empty, Skeleton, Time, Trouble } from '../parts/bits';
import { sayProblem } from '../parts/toast';

export default function Store() {
  const p = project.value;
  const store = useLoad(p ? (s) => api.storeFacts({ project: p }, s) : null, [p]);
  const cluster = useLoad(p ? (s) => api.clusterFacts({ project: p }, s) : null, [p]);
  const w = words.store;
  const s = store.value;
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
      </div>
      {store.problem ? (
        <Trouble problem={store.problem} again={store.again} />
      ) : (
        <Card title={w.store} aside={s ? <span class="hash ellipsis">{s.uri}</span> : undefined}>
          {!s ? (
            <Skeleton lines={3} />
          ) : (
            <dl class="figures">
              <div>
                <dt>{w.size}</dt>
                <dd>{bytes(Object.values(s.spaces).reduce((n, x) => n + x.bytes, 0))}</dd>
              </div>
              {Object.entries(s.spaces).map(([name, x]) => (
                <div key={name}>
                  <dt>{name}</dt>
                  <dd>{count(x.objects)}</dd>
                  <dd class="small">{bytes(x.bytes)}</dd>
                </div>
              ))}
              <div>
                <dt>{w.gc}</dt>
                <Freed project={p!} />
                {s.at && (
                  <dd class="small">
                    <Time at={s.at} />
                  </dd>
                )}
              </div>
            </dl>
          )}
        </Card>
      )}
      {s?.weeks && s.weeks.length > 0 && (
        <div class="twocol">
          <Card title={w.hitRate}>
            <Bars
              label={w.hitRate}
              tone="hit"
              rows={s.weeks.map((x) => ({
                key: (x.begin ?? '').slice(0, 10),
                value: x.hits + x.executed > 0 ? x.hits / (x.hits + x.executed) : 0,
                text: `${Math.round((100 * x.hits) / Math.max(1, x.hits + x.executed))} %`,
              }))}
              most={1}
            />
          </Card>
          <Card title={w.timeSaved}>
            <Bars
              label={w.timeSaved}
              tone="executed"
              rows={s.weeks.map((x) => ({
                key: (x.begin ?? '').slice(0, 10),
                value: x.saved_ns,
                text: duration(x.saved_ns),
              }))}
            />
          </Card>
        </div>
      )}
      <Cluster facts={cluster.value} problem={cluster.problem} again={cluster.again} />
    </>
  );
}

/** Asked for, not shown at once: it looks at every object of the store. */
function Freed({ project: p }: { project: string }) {
  const w = words.store;
  const [launch, setLaunch] = useState<string | null>(null);
  const [found, setFound] = useState<api.EstimateAnswer | null>(null);
  useEffect(() => {
    if (!launch) return;
    const stop = new AbortController();
    const ask = async () => {
      while (!stop.signal.aborted) {
        const a = await api.estimate(launch, { project: p }, stop.signal);
        if (a.state === 'ended') {
          setFound(a);
          setLaunch(null);
          return;
        }
        await new Promise((r) => setTimeout(r, 500));
      }
    };
    ask().catch((e: api.Problem) => {
      if (e.name === 'AbortError') return;
      setLaunch(null);
      sayProblem(e);
    });
    return () => stop.abort();
  }, [launch]);
  const e = found?.estimate;
  return (
    <>
      {e && (
        <>
          <dd>{bytes(e.condemned_bytes)}</dd>
          <dd class="small">
            {w.gcObjects(e.condemned)}
            {e.sweep_after && (
              <>
                {' '}
                · {w.gcLater} <Time at={e.sweep_after} />
              </>
            )}
          </dd>
        </>
      )}
      {found?.problem && <dd class="small">{found.problem}</dd>}
      <dd class="row tight small">
        {launch ? (
          <span role="status">{w.gcRunning}</span>
        ) : (
          <Action
            label={w.gcAsk}
            kind="small"
            why={whyNot('operator')}
            onClick={() =>
              void api
                .startEstimate({}, { project: p })
                .then((a) => setLaunch(a.launch))
                .catch(sayProblem)
            }
          />
        )}
        <code>{w.gcCommand}</code>
        <Copy text={w.gcCommand} />
      </dd>
    </>
  );
}

function Bars({
  rows,
  label,
  tone,
  most,
}: {
  rows: { key: string; value: number; text: string }[];
  label: string;
  tone: string;
  most?: number;
}) {
  const top = most ?? Math.max(1, ...rows.map((r) => r.value));
  const last = rows[rows.length - 1];
  return (
    <figure class={`bars tone-${tone}`}>
      <ul aria-label={label}>
        {rows.map((r) => (
          <li key={r.key} title={`${r.key}: ${r.text}`}>
            <i style={{ height: `${Math.max(1, (r.value / top) * 100)}%` }} />
            <span class="sr">
              {r.key}: {r.text}
            </span>
          </li>
        ))}
      </ul>
      <figcaption class="row apart quiet">
        <span>{rows[0]?.key}</span>
        <span>
          {last?.key} · <strong>{last?.text}</strong>
        </span>
      </figcaption>
    </figure>
  );
}

function Cluster({
  facts,
  problem,
  again,
}: {
  facts: api.ClusterFacts | null;
  problem: api.Problem | null;
  again: () => void;
}) {
  const w = words.store;
  const q = { project: projectQuery.value };
  if (problem) return problem.status === 404 ? null : <Trouble problem={problem} again={again} />;
  return (
    <Card title={w.cluster} flush>
      {!facts ? (
        <div class="body">
          <Skeleton lines={3} />
        </div>
      ) : !facts.configured ? (
        <Empty title={w.none} hint={w.noneHint} command={w.noneCommand} />
      ) : (
        <>
          {facts.attempts.length === 0 ? (
            <p class="body quiet">{w.podsNone}</p>
          ) : (
            <div class="tablewrap">
              <table>
                <thead>
                  <tr>
                    <th scope="col">{words.runs.cols.run}</th>
                    <th scope="col">{words.run.taskCols.started}</th>
                    <th scope="col">{words.run.taskCols.task}</th>
                    <th scope="col">{words.task.node}</th>
                    <th scope="col">{w.waiting}</th>
                  </tr>
                </thead>
                <tbody>
                  {facts.attempts.map((x) => (
                    <tr key={x.run + x.task}>
                      <th scope="row" class="mono">
                        {x.run}
                      </th>
                      <td>
                        <Time at={x.started} />
                      </td>
                      <td>
                        {x.run && x.task ? (
                          <a href={url(`/runs/${part(x.run)}/tasks/${part(x.task)}`, q)}>
                            {x.task}
                          </a>
                        ) : (
                          words.none
                        )}
                      </td>
                      <td>{x.node ?? words.none}</td>
                      <td class="second">{x.waiting}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )}
        </>
      )}
    </Card>
  );
}
