// One task beside the view of its run: why it ran, what it read and made, its attempts, log, metrics.

import { useEffect, useRef } from 'preact/hooks';
import * as api from '../../api';
import type { AttemptDetail, Port, TaskDetail } from '../../api';
import { bytes, duration, lasted, shortHash, value } from '../../base/format';
import { onKey, typing } from '../../base/keys';
import { lazy } from '../../base/lazy';
import { useLoad } from '../../base/load';
import { go, part, place, url } from '../../base/route';
import { words } from '../../base/words';
import { logPlace } from '../../log/place';
import {
  Copy,
  Empty,
  Hash,
  IconLink,
  Lasting,
  Pill,
  Skeleton,
  State,
  Time,
  Trouble,
} from '../../parts/bits';
import { Icon } from '../../parts/icons';
import type { RunModel } from './model';
import { taskHref } from './run';

export const LogView = lazy(() => import('../../log/view'));
const TaskMetrics = lazy(() => import('./taskmetrics'));

const TABS = ['overview', 'log', 'metrics', 'attempts'] as const;
type Tab = (typeof TABS)[number];

export default function TaskPanel({
  model,
  task,
  closeHref,
}: {
  model: RunModel;
  task: string;
  closeHref: string;
}) {
  const id = model.run?.id ?? model.id;
  const detail = useLoad(
    (s) => api.taskDetail(id, { project: model.project, task }, s),
    [id, task],
    true,
  );
  const known = model.tasks.get(task);
  const fresh = model.fresh.get(task);
  const state = fresh?.state ?? known?.state ?? detail.value?.state ?? 'waiting';
  // A change of state brings facts that no event carries: outputs, attempts.
  const settled = fresh?.state ?? known?.state;
  const before = useRef(settled);
  useEffect(() => {
    const was = before.current;
    before.current = settled;
    if (was && was !== settled) detail.again();
  }, [settled]);
  useEffect(
    () =>
      onKey((e) => {
        if (e.key !== 'Escape' || typing(e) || document.querySelector('dialog[open]')) return;
        go(closeHref);
        return true;
      }),
    [closeHref],
  );
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus({ preventScroll: true }), []);
  const q = place.value.query;
  const wanted = q.get('tab') as Tab | null;
  const tab: Tab =
    wanted && TABS.includes(wanted)
      ? wanted
      : state === 'failed' || state === 'running'
        ? 'log'
        : 'overview';
  const d = detail.value;
  // A task that waits on its cluster counts as running and opens with its log: said above any tab.
  const waits = state === 'running' ? (fresh ? fresh.waiting : d?.waiting) : null;
  return (
    <section class="taskpanel card" aria-label={words.task.label(task)}>
      <header class="row">
        <h2 ref={heading} tabIndex={-1} class="ellipsis" title={task}>
          {task}
        </h2>
        <Copy text={task} />
        <Pill state={state} />
        <span class="grow" />
        <span class="second nowrap">
          {state === 'running' ? (
            <Lasting since={fresh?.started ?? d?.started} />
          ) : state === 'hit' ? (
            words.run.savedBy(duration(d?.saved_ns))
          ) : (
            lasted(fresh ?? d)
          )}
        </span>
        <IconLink
          icon="close"
          label={words.close}
          kind="bare small"
          href={closeHref}
          title={`${words.close} (Esc)`}
        />
      </header>
      <nav class="tabs" aria-label={words.task.label(task)}>
        {TABS.map((t) => (
          <a
            key={t}
            href={taskHref(model.id, task, { tab: t })}
            aria-current={t === tab ? 'page' : undefined}
          >
            {words.task.tabs[t]}
            {t === 'attempts' && d && d.attempts_list.length > 1 && (
              <span class="badge">{d.attempts_list.length}</span>
            )}
          </a>
        ))}
      </nav>
      {waits && <p class="callout tone-waiting">{`${words.task.waitsFor}: ${waits}`}</p>}
      <div
        class={`panelbody ${tab === 'log' ? 'fixed' : ''}`}
        tabIndex={tab === 'log' ? undefined : 0}
        role={tab === 'log' ? undefined : 'group'}
        aria-label={tab === 'log' ? undefined : words.task.tabs[tab]}
      >
        {tab === 'log' ? (
          state === 'hit' && d?.hit_of ? (
            <Empty title={words.log.hit}>
              <a
                class="btn"
                href={url(`/runs/${part(d.hit_of)}/tasks/${part(task)}`, {
                  tab: 'log',
                  project: q.get('project'),
                })}
              >
                {words.log.hitLink}
              </a>
            </Empty>
          ) : state === 'waiting' ? (
            <Empty title={words.log.waiting} hint={d?.waiting ?? undefined!} />
          ) : (
            <LogView
              where={logPlace(id, task, model.project, q)}
              running={state === 'running'}
              empty={words.log.empty}
              ranks={d?.ranks ?? 1}
            />
          )
        ) : detail.problem && !d ? (
          <Trouble problem={detail.problem} again={detail.again} />
        ) : !d ? (
          <Skeleton />
        ) : tab === 'metrics' ? (
          <TaskMetrics model={model} d={d} running={state === 'running'} />
        ) : tab === 'attempts' ? (
          <Attempts model={model} d={d} />
        ) : (
          <Overview model={model} d={d} />
        )}
      </div>
    </section>
  );
}

/** A cause with its diff: added and removed lines are told apart. */
function CauseText({ text }: { text: string }) {
  const [head, ...rest] = text.split('\n');
  return (
    <li>
      {head}
      {rest.length > 0 && (
        <pre class="code diff" tabIndex={0} aria-label={words.task.why}>
          {rest.map((l, i) => (
            <span key={i} class={/^\s*\+/.test(l) ? 'add' : /^\s*-/.test(l) ? 'del' : undefined}>
              {l}
              {'\n'}
            </span>
          ))}
        </pre>
      )}
    </li>
  );
}

const began = (d: TaskDetail) => d.attempts > 0 || !!d.hit_of;

function Overview({ model, d }: { model: RunModel; d: TaskDetail }) {
  const q = { project: place.value.query.get('project') };
  const w = words.task;
  const changes = d.why?.changes ?? [];
  // What a change says by itself isn't said twice; what made it change is.
  const causes = (d.why?.causes ?? []).filter(
    (c) =>
      !changes.some(
        (x) =>
          x.was !== null &&
          x.now !== null &&
          c === `${x.what} ${x.name} changed: ${x.was} → ${x.now}`,
      ),
  );
  const last = d.attempts_list[d.attempts_list.length - 1];
  return (
    <div class="stack wide">
      {d.phase && (
        <section class="callout tone-waiting">
          <p>{`${w.phase}: ${d.phase}`}</p>
        </section>
      )}
      {d.message && (
        <section class="callout tone-failed">
          <p class="prewrap">{d.message}</p>
        </section>
      )}
      <section class="stack">
        <h3>{w.why}</h3>
        {d.hit_of && (
          <p>
            <State state="hit" /> {w.hitOf}{' '}
            <a class="hash" href={url(`/runs/${part(d.hit_of)}`, q)}>
              {d.hit_of}
            </a>
          </p>
        )}
        {changes.length > 0 && (
          <ul class="changes">
            {changes.map((c, i) => (
              <li key={i}>
                <span class="tag">{c.what}</span>
                <span class="mono">{c.name}</span>
                <span class="mono del">
                  {c.was_content ? shortHash(c.was_content.id) : (c.was ?? words.none)}
                </span>
                <span aria-label={words.task.is}>→</span>
                <span class="mono add">
                  {c.now_content ? (
                    <Hash
                      id={c.now_content.id}
                      href={url(`/artifacts/${part(c.now_content.id)}`, { ...q, name: c.name })}
                    />
                  ) : (
                    (c.now ?? words.none)
                  )}
                </span>
                {c.detail && <span class="quiet">{c.detail}</span>}
              </li>
            ))}
          </ul>
        )}
        {causes.length > 0 ? (
          <ul class="causes">
            {causes.map((c, i) => (
              <CauseText key={i} text={c} />
            ))}
          </ul>
        ) : (
          !d.hit_of && changes.length === 0 && <p class="second">{d.reason ?? words.none}</p>
        )}
      </section>
      {d.command && (
        <section class="stack">
          <div class="row apart copyable">
            <h3>
              {w.command} <span class="quiet">{w.commandAs}</span>
            </h3>
            <Copy text={d.command} />
          </div>
          <pre class="code" tabIndex={0} aria-label={w.command}>
            {d.command}
          </pre>
        </section>
      )}
      <Ports
        title={w.inputs}
        none={began(d) ? w.noInputs : w.notYet}
        ports={d.inputs}
        model={model}
      />
      <Ports
        title={w.outputs}
        none={began(d) ? w.noOutputs : w.notYet}
        ports={d.outputs}
        model={model}
        lineage
      />
      {Object.keys(d.metrics).length > 0 && <Pairs title={words.compare.metrics} of={d.metrics} />}
      {Object.keys(d.params).length > 0 && <Pairs title={w.params} of={d.params} />}
      {Object.keys(d.env).length > 0 && <Pairs title={w.env} of={d.env} />}
      {d.with && Object.keys(d.with).length > 0 && <Pairs title="with" of={d.with} />}
      {d.tools && Object.keys(d.tools).length > 0 && <Pairs title={w.tools} of={d.tools} />}
      {last && <Resources a={last} />}
      {(d.upstream.length > 0 || d.downstream.length > 0) && (
        <div class="twocol">
          <TaskLinks title={w.upstream} tasks={d.upstream} model={model} />
          <TaskLinks title={w.downstream} tasks={d.downstream} model={model} />
        </div>
      )}
    </div>
  );
}

function Ports({
  title,
  none,
  ports,
  model,
  lineage,
}: {
  title: string;
  none: string;
  ports: Port[];
  model: RunModel;
  lineage?: boolean;
}) {
  const q = { project: place.value.query.get('project') };
  return (
    <section class="stack">
      <h3>{title}</h3>
      {ports.length === 0 ? (
        <p class="quiet">{none}</p>
      ) : (
        <ul class="ports">
          {ports.map((p) => (
            <li key={p.name}>
              <Icon name={p.content?.kind === 'tree' ? 'folder' : 'file'} size={14} />
              <span class="ellipsis">
                <strong>{p.name}</strong>{' '}
                {p.from?.task && (
                  <span class="quiet">
                    {words.task.fromTask}{' '}
                    <a href={taskHref(model.id, p.from.task)}>{p.from.task}</a>
                    {p.from.output ? `/${p.from.output}` : ''}
                  </span>
                )}
                {p.from?.input && (
                  <span class="quiet">
                    {words.task.fromInput} {p.from.input}
                  </span>
                )}
              </span>
              <span class="quiet nowrap">{bytes(p.content?.size)}</span>
              {p.content ? (
                <Hash
                  id={p.content.id}
                  href={url(`/artifacts/${part(p.content.id)}`, { ...q, name: p.name })}
                />
              ) : (
                <span class="quiet">{words.none}</span>
              )}
              {lineage && p.content && (
                <IconLink
                  icon="lineage"
                  label={`${words.nav.lineage}: ${p.name}`}
                  kind="bare small"
                  href={url(`/lineage/${part(p.content.id)}`, q)}
                  title={words.nav.lineage}
                />
              )}
            </li>
          ))}
        </ul>
      )}
    </section>
  );
}

export function Pairs({ title, of }: { title: string; of: Record<string, unknown> }) {
  return (
    <section class="stack">
      <h3>{title}</h3>
      <dl class="facts">
        {Object.entries(of).map(([k, v]) => (
          <>
            <dt class="mono">{k}</dt>
            <dd class="mono prewrap">{value(v)}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function TaskLinks({ title, tasks, model }: { title: string; tasks: string[]; model: RunModel }) {
  if (tasks.length === 0) return null;
  return (
    <section class="stack close">
      <h3>{title}</h3>
      <ul class="stack close">
        {tasks.slice(0, 100).map((t) => (
          <li key={t}>
            <a href={taskHref(model.id, t)}>{t}</a>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Resources({ a }: { a: AttemptDetail }) {
  const rows: [string, string][] = [];
  if (a.node) rows.push([words.task.node, a.node]);
  if (a.image) rows.push([words.task.image, a.image]);
  if (a.max_rss_bytes) rows.push([words.task.maxRss, bytes(a.max_rss_bytes)]);
  if (a.cpu_ns) rows.push([words.task.cpu, duration(a.cpu_ns)]);
  if (rows.length === 0) return null;
  return (
    <section class="stack">
      <h3>{words.task.resources}</h3>
      <dl class="facts">
        {rows.map(([k, v]) => (
          <>
            <dt>{k}</dt>
            <dd>{v}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

function Attempts({ model, d }: { model: RunModel; d: TaskDetail }) {
  if (d.attempts_list.length === 0)
    return <Empty title={d.hit_of ? words.log.hit : words.log.waiting} />;
  return (
    <ol class="stack">
      {d.attempts_list.map((a, i) => {
        const before = d.attempts_list[i - 1];
        const gap =
          before && a.started && before.started
            ? (Date.parse(a.started) - Date.parse(before.started)) * 1e6 - (before.duration_ns ?? 0)
            : 0;
        return (
          <li key={a.id} class="attempt">
            <div class="row">
              <strong>{words.task.attempt(a.attempt)}</strong>
              <State state={a.state === 'succeeded' ? 'executed' : a.state} />
              {a.failure && <span class="tag">{a.failure}</span>}
              {a.exit !== null && a.exit !== undefined && a.exit !== 0 && (
                <span class="tag">{words.task.exit(a.exit)}</span>
              )}
              <span class="grow" />
              <span class="quiet">
                <Time at={a.started} how="moment" />
              </span>
              <span class="num">
                {a.state === 'running' ? <Lasting since={a.started} /> : duration(a.duration_ns)}
              </span>
              <a
                class="btn small"
                href={taskHref(model.id, d.task, { tab: 'log', attempt: String(a.attempt) })}
              >
                {words.task.tabs.log}
              </a>
            </div>
            {gap > 5e8 && <p class="quiet">{words.task.backoff(duration(gap))}</p>}
            {a.message && <p class="prewrap">{a.message}</p>}
            {a.waiting && <p class="second">{`${words.task.waitsFor}: ${a.waiting}`}</p>}
            {(a.continues ?? []).length > 0 && (
              <p class="quiet">{words.task.continuesOf((a.continues ?? []).join(', '))}</p>
            )}
            <Resources a={a} />
          </li>
        );
      })}
    </ol>
  );
}
