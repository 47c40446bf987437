// What needs attention, what runs, what came out lately.

import { useEffect } from 'preact/hooks';
import * as api from '../api';
import { useLoad } from '../base/load';
import { count, duration } from '../base/format';
import { project, projectQuery } from '../base/project';
import { part, url } from '../base/route';
import { words } from '../base/words';
import { subscribe } from '../live/live';
import {
  Card,
  Copy,
  Empty,
  Lasting,
  Left,
  Skeleton,
  State,
  StateIcon,
  TaskBar,
  Time,
  Trouble,
} from '../parts/bits';

const TONE: Record<string, string> = {
  failed: 'failed',
  approval: 'approval',
  schedule: 'paused',
  died: 'died',
  interrupted: 'interrupted',
  nondeterminism: 'approval',
  cluster: 'approval',
};

export default function Home() {
  const p = project.value;
  const inProject = { project: p };
  const home = useLoad(p ? (s) => api.home(inProject, s) : null, [p]);
  const running = useLoad(
    p ? (s) => api.runs({ project: p, state: 'running', limit: 20 }, s) : null,
    [p],
  );
  const recent = useLoad(p ? (s) => api.runs({ project: p, limit: 12 }, s) : null, [p]);
  const schedules = useLoad(p ? (s) => api.schedules({ project: p }, s) : null, [p]);
  useEffect(() => {
    let timer = 0;
    const stop = subscribe((batch) => {
      if (!batch.some((h) => h.kind !== 'task') || timer) return;
      timer = window.setTimeout(() => {
        timer = 0;
        home.again();
        running.again();
        recent.again();
      }, 1000);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, []);
  const to = (path: string) => url(path, { project: projectQuery.value });
  const next = (schedules.value?.schedules ?? [])
    .filter((s) => s.next && !s.paused)
    .sort((a, b) => (a.next! < b.next! ? -1 : 1))
    .slice(0, 6);
  const h = home.value;
  return (
    <>
      <div class="pagehead">
        <h1>{words.home.title}</h1>
      </div>
      <div class="homegrid">
        <div class="stack wide">
          <Card title={words.home.attention} flush>
            {home.problem && home.problem.status !== 404 && (
              <Trouble problem={home.problem} again={home.again} />
            )}
            {home.first && (
              <div class="body">
                <Skeleton lines={3} />
              </div>
            )}
            {h && h.attention.length === 0 && (
              <Empty title={words.home.calm} hint={words.home.calmHint} />
            )}
            <ul class="lines">
              {h?.attention.map((a, i) => (
                <li key={`${a.kind} ${a.run} ${i}`}>
                  <a class="line" href={to(`/runs/${part(a.run)}`)}>
                    <span class={`state tone-${TONE[a.kind] ?? 'failed'}`}>
                      <StateIcon state={TONE[a.kind] ?? 'failed'} />
                      {words.home.kinds[a.kind] ?? a.kind}
                    </span>
                    <span class="grow">
                      <strong>{a.pipeline}</strong> {a.words}
                    </span>
                    <span class="quiet">
                      <Time at={a.at} />
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          </Card>
          <Card title={words.home.running} flush>
            {running.first && (
              <div class="body">
                <Skeleton lines={2} />
              </div>
            )}
            {running.value?.runs.length === 0 && (
              <div class="body row quiet">
                {words.home.runningNone} <code>{words.runs.emptyCommand}</code>
                <Copy text={words.runs.emptyCommand} />
              </div>
            )}
            <ul class="lines">
              {running.value?.runs.map((r) => (
                <li key={r.id}>
                  <a class="line" href={to(`/runs/${part(r.id)}`)}>
                    <State state={r.waiting ? 'approval' : 'running'} word={r.pipeline} />
                    <span class="grow quiet hash">{r.id}</span>
                    <TaskBar counts={r.counts} width={120} />
                    <span class="quiet">
                      <Left at={r.expected_end} short />
                    </span>
                    <span class="num w100">
                      <Lasting since={r.started} />
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          </Card>
          <Card title={words.home.recent} aside={<a href={to('/runs')}>{words.nav.runs}</a>} flush>
            {recent.first && (
              <div class="body">
                <Skeleton />
              </div>
            )}
            {recent.value?.runs.length === 0 && (
              <Empty
                title={words.runs.empty}
                hint={words.runs.emptyHint}
                command={words.runs.emptyCommand}
              />
            )}
            <ul class="lines">
              {recent.value?.runs.map((r) => (
                <li key={r.id}>
                  <a class="line" href={to(`/runs/${part(r.id)}`)}>
                    <State state={r.state} word={r.pipeline} />
                    <span class="grow quiet ellipsis">
                      {r.message ?? <span class="hash">{r.id}</span>}
                    </span>
                    <span class="quiet num w100">
                      {r.state === 'running' ? (
                        <Lasting since={r.started} />
                      ) : (
                        duration(r.duration_ns)
                      )}
                    </span>
                    <span class="quiet num w80">
                      <Time at={r.started} />
                    </span>
                  </a>
                </li>
              ))}
            </ul>
          </Card>
        </div>
        <div class="stack wide">
          <Card title={words.home.week}>
            {h ? (
              <dl class="figures">
                <div>
                  <dt>{words.home.weekRuns}</dt>
                  <dd>{count(h.week.runs)}</dd>
                </div>
                <div class={h.week.failed ? 'tone-failed' : ''}>
                  <dt>{words.home.weekFailed}</dt>
                  <dd>{count(h.week.failed)}</dd>
                </div>
                <div class="tone-hit">
                  <dt>{words.home.weekSaved}</dt>
                  <dd>{duration(h.week.saved_ns)}</dd>
                </div>
              </dl>
            ) : (
              !home.problem && <Skeleton lines={2} />
            )}
          </Card>
          <Card
            title={words.home.upcoming}
            aside={<a href={to('/schedules')}>{words.nav.schedules}</a>}
            flush
          >
            {schedules.value && next.length === 0 && (
              <p class="body quiet">{words.home.upcomingNone}</p>
            )}
            <ul class="lines">
              {next.map((s) => (
                <li key={s.path + s.schedule} class="line">
                  <span class="grow">
                    {s.schedule} <span class="quiet">{s.pipeline}</span>
                  </span>
                  <span class="quiet">
                    <Time at={s.next} />
                  </span>
                </li>
              ))}
            </ul>
          </Card>
        </div>
      </div>
    </>
  );
}
