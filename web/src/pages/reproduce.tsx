// Proof: run a past run again from its record, and compare every output.

import { useEffect, useState } from 'preact/hooks';
import * as api from '../api';
import type { Verdict } from '../api';
import { duration, shortHash, value } from '../base/format';
import { useLoad } from '../base/load';
import { project } from '../base/project';
import { go, part, place, url } from '../base/route';
import { whyNot } from '../base/session';
import { words } from '../base/words';
import { subscribe } from '../live/live';
import {
  Action,
  Card,
  Check,
  Copy,
  Hash,
  Lasting,
  Pill,
  Skeleton,
  State,
  StateIcon,
  Time,
  Trouble,
} from '../parts/bits';
import { launched } from './start';

const TONE: Record<string, string> = {
  identical: 'executed',
  reproduced: 'executed',
  'identical after normalisation': 'hit',
  'within tolerance': 'hit',
  different: 'failed',
  diverged: 'failed',
  missing: 'failed',
  extra: 'approval',
  'not comparable': 'waiting',
  'not selected': 'skipped',
};

const verdictText: Record<string, string> = {
  identical: words.reproduce.verdicts.identical!,
  'identical after normalisation': words.reproduce.verdicts.normalised!,
  'within tolerance': words.reproduce.verdicts.tolerance!,
  different: words.reproduce.verdicts.different!,
  missing: words.reproduce.verdicts.missing!,
  extra: words.reproduce.verdicts.extra!,
  'not comparable': words.reproduce.verdicts.incomparable!,
};
const say = (v: string) => verdictText[v] ?? v;

const VERDICT_TRIES = 60;
const VERDICT_MS = 500;

/** The run ends before its outputs are compared: the verdict comes a moment later. */
async function verdictOf(r: api.Run, project: string, signal: AbortSignal): Promise<api.Verdict> {
  for (let tries = 0; ; tries++)
    try {
      return await api.verdict(r.id, { project }, signal);
    } catch (e) {
      const comes = r.state === 'succeeded' || r.state === 'failed';
      if ((e as api.Problem).status !== 404 || !comes || tries === VERDICT_TRIES) throw e;
      await new Promise((wait) => setTimeout(wait, VERDICT_MS));
    }
}

export default function Reproduce({ params }: { params: Record<string, string> }) {
  const id = params.run!;
  const p = project.value;
  const q = { project: place.value.query.get('project') };
  const run = useLoad(p ? (s) => api.run(id, { project: p }, s) : null, [id, p], true);
  const r = run.value;
  const isOne = !!r?.reproduces;
  useEffect(() => {
    let timer = 0;
    const stop = subscribe((batch) => {
      if (
        timer ||
        !batch.some(
          (h) =>
            h.kind === 'reset' || (h.kind === 'run' && (h.data.id === id || h.data.id === r?.id)),
        )
      )
        return;
      timer = window.setTimeout(() => {
        timer = 0;
        run.again();
      }, 500);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [id, r?.id]);
  const verdict = useLoad(
    isOne && p && r && r.state !== 'running' ? (s) => verdictOf(r, p, s) : null,
    [r?.id, r?.state, isOne, p],
  );
  const past = useLoad(
    !isOne && p && r ? (s) => api.runs({ project: p, pipeline: r.pipeline, limit: 200 }, s) : null,
    [r?.id, isOne, p],
  );
  const w = words.reproduce;
  if (run.problem && !r) return <Trouble problem={run.problem} again={run.again} />;
  if (!r) return <Skeleton />;
  const mine = (past.value?.runs ?? []).filter((x) => x.reproduces && x.reproduces === r.hash);
  return (
    <>
      <div class="crumbs">
        <a href={url('/runs', q)}>{words.runs.title}</a>
        <span aria-hidden="true">/</span>
        <a href={url(`/runs/${part(r.id)}`, q)}>
          {r.pipeline} {r.id}
        </a>
      </div>
      <div class="pagehead">
        <h1>{isOne ? w.verdict : w.title}</h1>
        <Pill state={r.state} />
      </div>
      {isOne ? (
        <>
          <dl class="inlinefacts">
            <div>
              <dt>{w.original}</dt>
              <dd>
                <Hash id={r.reproduces} href={url(`/runs/${part(r.reproduces!)}`, q)} />
              </dd>
            </div>
            <div>
              <dt>{words.run.facts.started}</dt>
              <dd>
                <Time at={r.started} />
              </dd>
            </div>
            <div>
              <dt>{words.run.facts.duration}</dt>
              <dd>
                {r.state === 'running' ? <Lasting since={r.started} /> : duration(r.duration_ns)}
              </dd>
            </div>
          </dl>
          {r.state === 'running' && (
            <section class="callout tone-running" role="status">
              <h2>
                <StateIcon state="running" /> {w.running}
              </h2>
              <div>
                <a class="btn" href={url(`/runs/${part(r.id)}`, q)}>
                  {words.run.views.graph}
                </a>
              </div>
            </section>
          )}
          {verdict.problem && <Trouble problem={verdict.problem} again={verdict.again} />}
          {r.state !== 'running' && verdict.first && <Skeleton />}
          {verdict.value && <VerdictView v={verdict.value} />}
        </>
      ) : (
        <>
          <StartForm run={r} />
          <Card title={w.past} flush>
            {past.first ? (
              <div class="body">
                <Skeleton lines={2} />
              </div>
            ) : mine.length === 0 ? (
              <p class="body quiet">{w.nothing}</p>
            ) : (
              <ul class="lines">
                {mine.map((x) => (
                  <li key={x.id}>
                    <a class="line" href={url(`/runs/${part(x.id)}/reproduce`, q)}>
                      <State state={x.state} />
                      <span class="grow hash">{x.id}</span>
                      <span class="quiet">
                        <Time at={x.started} />
                      </span>
                    </a>
                  </li>
                ))}
              </ul>
            )}
          </Card>
        </>
      )}
    </>
  );
}

function StartForm({ run }: { run: api.Run }) {
  const [chained, setChained] = useState(false);
  const [trust, setTrust] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<api.Problem | null>(null);
  const p = project.value;
  const w = words.reproduce;
  const command = `cairn reproduce ${(run.hash ?? run.id).slice(0, 16)}${chained ? ' --chained' : ''}`;
  const begin = async () => {
    setBusy(true);
    setProblem(null);
    try {
      const wanted = { run: run.hash ?? run.id, chained, ...(trust ? { trust } : {}) };
      const id = await launched(p, () => api.reproduceRun(wanted, { project: p }));
      go(url(`/runs/${part(id)}/reproduce`, { project: place.value.query.get('project') }));
    } catch (e) {
      setProblem(e as api.Problem);
    }
    setBusy(false);
  };
  return (
    <Card title={w.start}>
      <div class="stack">
        <p class="measure">{w.says}</p>
        <label class="check">
          <input type="radio" name="mode" checked={!chained} onChange={() => setChained(false)} />{' '}
          {w.isolated}
        </label>
        <label class="check">
          <input type="radio" name="mode" checked={chained} onChange={() => setChained(true)} />{' '}
          {w.chained}
        </label>
        <Check label={w.trust} checked={trust} onChange={setTrust} />
        <div class="row">
          <Action
            icon="proof"
            kind="primary"
            label={w.start}
            why={whyNot('operator')}
            busy={busy}
            onClick={() => void begin()}
          />
          {busy && <span class="quiet">{words.start.launching}</span>}
          <span class="row nowraprow tight copyable">
            <code class="quiet">{command}</code>
            <Copy text={command} />
          </span>
        </div>
        {problem && <Trouble problem={problem} />}
      </div>
    </Card>
  );
}

function VerdictView({ v }: { v: Verdict }) {
  const w = words.reproduce;
  const tone = TONE[v.verdict ?? ''] ?? 'waiting';
  const first = v.tasks.find((t) => t.task === v.first);
  const differs = first?.outputs.find((o) => TONE[o.verdict] === 'failed');
  return (
    <>
      <section class={`callout tone-${tone}`} role="status">
        <h2>
          <StateIcon state={tone} /> {v.verdict ? say(v.verdict) : words.none}
        </h2>
        {v.first ? (
          <p>
            {w.first}: <strong>{v.first}</strong>
            {differs ? `/${differs.name}` : ''} {differs?.path && <code>{differs.path}</code>}{' '}
            {differs?.detail ??
              (differs?.offset !== null && differs?.offset !== undefined
                ? `@ ${differs.offset}`
                : '')}
          </p>
        ) : (
          <p>{w.noneDiffer}</p>
        )}
      </section>
      <Card title={w.outputs} flush>
        <div class="tablewrap">
          <table>
            <thead>
              <tr>
                <th scope="col">{words.run.taskCols.task}</th>
                <th scope="col">{w.verdict}</th>
                <th scope="col">{words.task.was}</th>
                <th scope="col">{words.task.is}</th>
                <th scope="col" class="num">
                  {words.run.taskCols.value}
                </th>
                <th scope="col" class="num">
                  {words.run.facts.duration}
                </th>
              </tr>
            </thead>
            <tbody>
              {v.tasks.flatMap((t) => [
                <tr key={t.task}>
                  <th scope="row">
                    <strong>{t.task}</strong>
                  </th>
                  <td>
                    <State state={TONE[t.verdict] ?? 'waiting'} word={t.verdict} />
                  </td>
                  <td colSpan={3} class="second">
                    {t.why}
                  </td>
                  <td class="num quiet">
                    {duration(t.was_duration_ns)} → {duration(t.duration_ns)}
                  </td>
                </tr>,
                ...t.outputs.map((o) => (
                  <tr
                    key={`${t.task}/${o.name}`}
                    class={TONE[o.verdict] === 'failed' ? 'differs' : undefined}
                  >
                    <th scope="row" class="indent">
                      {o.name}
                    </th>
                    <td>
                      <State state={TONE[o.verdict] ?? 'waiting'} word={say(o.verdict)} />
                    </td>
                    <td class="hash">{shortHash(o.was)}</td>
                    <td class="hash">{shortHash(o.is)}</td>
                    <td colSpan={2} class="second">
                      {o.path && <code>{o.path}</code>} {o.detail ?? o.normaliser}
                    </td>
                  </tr>
                )),
                ...t.metrics.map((m) => (
                  <tr
                    key={`${t.task}:${m.name}`}
                    class={TONE[m.verdict] === 'failed' ? 'differs' : undefined}
                  >
                    <th scope="row" class="indent">
                      {m.name}
                    </th>
                    <td>
                      <State state={TONE[m.verdict] ?? 'waiting'} word={say(m.verdict)} />
                    </td>
                    <td>{value(m.was)}</td>
                    <td>{value(m.is)}</td>
                    <td colSpan={2} class="second">
                      {m.tolerance !== null ? `± ${value(m.tolerance)}` : ''}
                    </td>
                  </tr>
                )),
              ])}
            </tbody>
          </table>
        </div>
      </Card>
      {v.environment.length > 0 && (
        <Card title={words.task.env} flush>
          <div class="tablewrap">
            <table>
              <tbody>
                {v.environment.map((e) => (
                  <tr key={e.what}>
                    <th scope="row">{e.what}</th>
                    <td>{e.was ?? words.none}</td>
                    <td>{e.is ?? words.none}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </Card>
      )}
    </>
  );
}
