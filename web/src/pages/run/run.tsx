// A run: what it is, what it does now, and views of its tasks. A task opens beside the view.

import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import * as api from '../../api';
import type { Run } from '../../api';
import { count, duration, shortCommit, value } from '../../base/format';
import { REPORT } from '../../base/mode';
import { lazy } from '../../base/lazy';
import { projectQuery, projects, chosen } from '../../base/project';
import { go, part, place, url } from '../../base/route';
import { whyNot } from '../../base/session';
import { words } from '../../base/words';
import {
  Action,
  Check,
  Copy,
  countsText,
  Dialog,
  Empty,
  Hash,
  Lasting,
  Left,
  Pill,
  Skeleton,
  TaskBar,
  Time,
  Trouble,
} from '../../parts/bits';
import { Icon } from '../../parts/icons';
import { say, sayProblem } from '../../parts/toast';
import { Approvals, FirstFailure } from './callouts';
import { GraphPane } from './graphpane';
import { RunModel } from './model';

const Timeline = lazy(() => import('./timeline'));
const Tasks = lazy(() => import('./tasks'));
const Metrics = lazy(() => import('./metrics'));
const About = lazy(() => import('./about'));
export const TaskPanel = lazy(() => import('./task'));

const VIEWS = ['graph', 'timeline', 'tasks', 'metrics', 'about'] as const;
type View = (typeof VIEWS)[number];

export const taskHref = (run: string, task: string, more: Record<string, string | null> = {}) =>
  url(`/runs/${part(run)}/tasks/${part(task)}`, {
    project: projectQuery.value,
    view: place.value.query.get('view'),
    ...more,
  });

export default function RunPage({ params }: { params: Record<string, string> }) {
  const id = params.run!;
  const task = params.task ?? null;
  // With several projects a run's link names its own; without one, the first that knows it is meant.
  const [project, setProject] = useState<string | null>(chosen.value);
  const [model, setModel] = useState<RunModel | null>(null);
  const [, redraw] = useState(0);
  const tried = useRef(0);

  useLayoutEffect(() => {
    if (projects.value.length === 0) return;
    const m = new RunModel(id, project ?? projects.value[tried.current]?.project ?? null);
    setModel(m);
    const stop = m.onChange(() => {
      if (m.problem?.status === 404 && !chosen.value && tried.current + 1 < projects.value.length) {
        tried.current++;
        setProject(projects.value[tried.current]!.project);
        return;
      }
      redraw((n) => n + 1);
    });
    return () => {
      stop();
      m.close();
    };
  }, [id, project, projects.value.length]);

  const query = place.value.query;
  const view = (VIEWS.includes(query.get('view') as View) ? query.get('view') : 'graph') as View;
  const run = model?.run;
  if (model?.problem && !run)
    return model.problem.status === 404 ? (
      <Empty
        whole
        title={words.run.notFound}
        hint={words.run.notFoundHint}
        command={words.run.notFoundCommand}
      />
    ) : (
      <Trouble problem={model.problem} again={() => void model.read()} />
    );
  const runHref = url(`/runs/${part(id)}`, {
    project: query.get('project'),
    view: view === 'graph' ? null : view,
  });
  const open = (t: string) => go(taskHref(id, t));
  return (
    <>
      <RunHead run={run ?? null} model={model} version={model?.version ?? 0} />
      {run && model && <Approvals run={run} model={model} />}
      {run && model && !task && run.state === 'failed' && (
        <FirstFailure run={run} model={model} version={model.version} />
      )}
      <nav class="tabs" aria-label={words.run.viewsLabel}>
        {VIEWS.map((v) => (
          <a
            key={v}
            href={url(task ? `/runs/${part(id)}/tasks/${part(task)}` : `/runs/${part(id)}`, {
              project: query.get('project'),
              view: v === 'graph' ? null : v,
              tab: task ? query.get('tab') : null,
            })}
            aria-current={v === view ? 'page' : undefined}
          >
            {words.run.views[v]}
            {v === 'tasks' && run ? <span class="badge">{count(run.counts.total)}</span> : null}
          </a>
        ))}
      </nav>
      <div
        class={`runbody ${task ? 'split' : ''} ${view === 'about' || view === 'metrics' ? 'flow' : ''}`}
      >
        <div class="viewpane">
          {!model || !run ? (
            <Skeleton lines={8} />
          ) : view === 'graph' ? (
            <GraphPane model={model} task={task} onOpen={open} />
          ) : view === 'timeline' ? (
            <Timeline model={model} task={task} onOpen={open} />
          ) : view === 'tasks' ? (
            <Tasks model={model} task={task} onOpen={open} />
          ) : view === 'metrics' ? (
            <Metrics model={model} />
          ) : (
            <About model={model} />
          )}
        </div>
        {task && model && run && (
          <TaskPanel key={task} model={model} task={task} closeHref={runHref} />
        )}
      </div>
    </>
  );
}

// A model changes inside: `version` tells Preact that something is new.
function RunHead({ run, model }: { run: Run | null; model: RunModel | null; version: number }) {
  const w = words.run.facts;
  if (!run || !model)
    return (
      <div class="stack" style={{ minHeight: '84px' }}>
        <Skeleton lines={3} />
      </div>
    );
  return (
    <header class="stack close">
      <div class="crumbs">
        <a href={url('/runs', { project: place.value.query.get('project') })}>{words.runs.title}</a>
        <span aria-hidden="true">/</span>
        <a
          href={url('/runs', { pipeline: run.pipeline, project: place.value.query.get('project') })}
        >
          {run.pipeline}
        </a>
      </div>
      <div class="pagehead">
        <h1>{run.pipeline}</h1>
        <span class="row tight copyable">
          <span class="hash">{run.id}</span>
          <Copy text={run.id} />
        </span>
        <span aria-live="polite">
          <Pill state={model.asks(() => true) ? 'approval' : run.state} />
        </span>
        {(run.tags ?? []).map((t) => (
          <span class="tag" key={t}>
            {t}
          </span>
        ))}
        <span class="grow" />
        {!REPORT && <Actions run={run} model={model} />}
      </div>
      <dl class="inlinefacts">
        <div>
          <dt>{w.started}</dt>
          <dd>
            <Time at={run.started} />
          </dd>
        </div>
        <div>
          <dt>{w.duration}</dt>
          <dd>
            {run.state === 'running' ? <Lasting since={run.started} /> : duration(run.duration_ns)}
          </dd>
        </div>
        {run.state === 'running' && run.expected_end && (
          <div>
            <dt>{w.left}</dt>
            <dd>
              <Left at={run.expected_end} />
            </dd>
          </div>
        )}
        <div>
          <dt>{w.tasks}</dt>
          <dd class="row tight" title={countsText(run.counts)}>
            <TaskBar counts={run.counts} width={90} />{' '}
            <LiveCounts model={model} run={run} version={model.version} />
          </dd>
        </div>
        {run.counts.hits > 0 && (
          <div>
            <dt>{w.saved}</dt>
            <dd class="tone-hit">{duration(run.saved_ns)}</dd>
          </div>
        )}
        <div>
          <dt>{w.commit}</dt>
          <dd class="hash" title={run.git_commit ?? undefined}>
            {shortCommit(run.git_commit)}
            {run.git_dirty ? '*' : ''}
          </dd>
        </div>
        <div>
          <dt>{w.hash}</dt>
          <dd>
            {run.hash ? <Hash id={run.hash} /> : <span title={words.run.noHash}>{words.none}</span>}
          </dd>
        </div>
        {run.schedule && (
          <div>
            <dt>{w.schedule}</dt>
            <dd>
              <a href={url('/schedules', { project: place.value.query.get('project') })}>
                {run.schedule}
              </a>
            </dd>
          </div>
        )}
        {run.git_author && (
          <div>
            <dt>{w.by}</dt>
            <dd>{run.git_author}</dd>
          </div>
        )}
        {Object.entries(run.params)
          .slice(0, 5)
          .map(([k, v]) => (
            <div key={k}>
              <dt>{k}</dt>
              <dd class="ellipsis w140max" title={value(v)}>
                {value(v)}
              </dd>
            </div>
          ))}
      </dl>
    </header>
  );
}

function LiveCounts({ run, model }: { run: Run; model: RunModel; version: number }) {
  const total = Math.max(run.counts.total, model.tasks.size);
  const ended =
    run.counts.executed +
    run.counts.hits +
    run.counts.failed +
    run.counts.skipped +
    run.counts.blocked;
  return <>{run.state === 'running' && total > 0 ? words.of(ended, total) : count(total)}</>;
}

function Actions({ run, model }: { run: Run; model: RunModel }) {
  const [asking, setAsking] = useState(false);
  const [now, setNow] = useState(false);
  const [busy, setBusy] = useState(false);
  const w = words.run.actions;
  const why = whyNot('operator');
  const q = { project: model.project };
  const doIt = async (what: () => Promise<unknown>, said: string) => {
    setBusy(true);
    try {
      await what();
      say(said);
      void model.read();
    } catch (e) {
      sayProblem(e as api.Problem);
    }
    setBusy(false);
  };
  return (
    <span class="row tight">
      {run.state === 'running' && (
        <Action
          icon="stop"
          label={w.cancel}
          why={why}
          busy={busy}
          onClick={() => setAsking(true)}
        />
      )}
      {['died', 'interrupted', 'failed', 'cancelled'].includes(run.state) && (
        <Action
          icon="play"
          label={w.resume}
          why={why}
          busy={busy}
          onClick={() => void doIt(() => api.resumeRun(run.id, q), words.run.resumed)}
        />
      )}
      <Action
        icon="again"
        label={w.again}
        why={why}
        onClick={() =>
          go(
            url('/start', {
              from: run.id,
              pipeline: run.path,
              project: model.project && projects.value.length > 1 ? model.project : null,
            }),
          )
        }
      />
      {run.hash && (
        <a
          class="btn"
          href={url(`/runs/${part(run.id)}/reproduce`, {
            project: place.value.query.get('project'),
          })}
        >
          <Icon name="proof" size={14} /> {run.reproduces ? w.verdict : w.reproduce}
        </a>
      )}
      <a
        class="btn"
        href={url('/compare', { runs: run.id, project: place.value.query.get('project') })}
      >
        <Icon name="compare" size={14} /> {w.compare}
      </a>
      {asking && (
        <Dialog title={words.run.cancelSure} onClose={() => setAsking(false)}>
          <p>{words.run.cancelSays}</p>
          <Check label={words.run.cancelSaysNow} checked={now} onChange={setNow} />
          <div class="row">
            <button
              type="button"
              class="btn danger"
              onClick={() => {
                setAsking(false);
                void doIt(
                  () => api.cancelRun(run.id, { now }, { project: model.project ?? '' }),
                  words.run.cancelled,
                );
              }}
            >
              {now ? w.cancelNow : w.cancel}
            </button>
            <button type="button" class="btn bare" onClick={() => setAsking(false)}>
              {words.close}
            </button>
          </div>
        </Dialog>
      )}
    </span>
  );
}
