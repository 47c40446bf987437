// A run from a form: the pipeline's typed params, the steps to take; what would run is shown before
// anything runs. `?from=RUN` takes that run's params.

import { useEffect, useMemo, useState } from 'preact/hooks';
import * as api from '../api';
import type { PipelineFacts, PipelineParam, Plan } from '../api';
import { duration, shellWord, value } from '../base/format';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { go, part, place, setQuery, url } from '../base/route';
import { whyNot } from '../base/session';
import { words } from '../base/words';
import {
  Action,
  Card,
  Check,
  Copy,
  Empty,
  Skeleton,
  State,
  StateIcon,
  Trouble,
} from '../parts/bits';
import { say } from '../parts/toast';

export type Given = Record<string, string>;

const textOf = (v: unknown): string =>
  v === null || v === undefined ? '' : typeof v === 'string' ? v : JSON.stringify(v);

/** What is wrong with a typed text; null: nothing. The server checks again. */
export function wrong(p: PipelineParam, text: string): string | null {
  const w = words.start.wrong;
  if (p.type === 'int' || p.type === 'float') {
    const n = Number(text);
    if (text.trim() === '' || !Number.isFinite(n)) return w.number;
    if (p.type === 'int' && !Number.isInteger(n)) return w.int;
    if (p.min !== null && p.min !== undefined && n < p.min) return w.min(value(p.min));
    if (p.max !== null && p.max !== undefined && n > p.max) return w.max(value(p.max));
  }
  return null;
}

/** Only what differs from the defaults is sent, as the param's type. */
export function paramsOf(
  ps: PipelineParam[],
  given: Given,
): Record<string, string | number | boolean> {
  const out: Record<string, string | number | boolean> = {};
  for (const p of ps) {
    const text = given[p.name];
    if (text === undefined || text === textOf(p.default)) continue;
    if (p.type === 'int' || p.type === 'float') out[p.name] = Number(text);
    else if (p.type === 'bool') out[p.name] = text === 'true';
    else out[p.name] = text;
  }
  return out;
}

export default function Start() {
  const p = project.value;
  const q = place.value.query;
  const from = q.get('from');
  const list = useLoad(p ? (s) => api.pipelines({ project: p }, s) : null, [p]);
  const source = useLoad(from && p ? (s) => api.run(from, { project: p }, s) : null, [from, p]);
  const all = list.value?.pipelines ?? [];
  const path = q.get('pipeline') ?? (all.length === 1 ? all[0]!.path : null);
  const chosen = all.find((x) => x.path === path) ?? null;
  const w = words.start;
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
      </div>
      {list.problem && <Trouble problem={list.problem} again={list.again} />}
      {list.first && <Skeleton />}
      {list.value && all.length === 0 && (
        <Empty title={w.empty} hint={w.emptyHint} command={w.emptyCommand} />
      )}
      {all.length > 0 && (
        <div class="startgrid">
          <Card title={w.pipeline} flush>
            <ul class="lines">
              {all.map((x) => (
                <li key={x.path}>
                  <button
                    type="button"
                    class="line"
                    aria-pressed={x.path === path}
                    onClick={() => setQuery({ pipeline: x.path })}
                  >
                    <span class="grow">
                      <strong>{x.pipeline}</strong> <span class="hash">{x.path}</span>
                      {x.description && <span class="second block">{x.description}</span>}
                    </span>
                    {!x.valid && <State state="failed" word={w.invalid} />}
                  </button>
                </li>
              ))}
            </ul>
          </Card>
          {!chosen ? (
            <Empty title={w.choose} />
          ) : !chosen.valid ? (
            <Problems of={chosen} />
          ) : from && source.first ? (
            <Skeleton />
          ) : (
            <Form
              key={`${chosen.path} ${from}`}
              pipeline={chosen}
              taken={source.value?.params ?? null}
              from={from}
            />
          )}
        </div>
      )}
    </>
  );
}

function Problems({ of }: { of: PipelineFacts }) {
  return (
    <section class="callout tone-failed">
      <h2>
        <StateIcon state="failed" /> {words.start.problems}
      </h2>
      <ul class="stack close">
        {of.problems.map((x, i) => (
          <li key={i} class="mono prewrap">
            {of.path}
            {x.line ? `:${x.line}:${x.column ?? 1}` : ''}: {x.message}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Field({
  p,
  text,
  onChange,
}: {
  p: PipelineParam;
  text: string;
  onChange: (v: string) => void;
}) {
  const bad = wrong(p, text);
  const changed = text !== textOf(p.default);
  const id = `param-${p.name}`;
  const hints = [
    p.help,
    p.type === 'enum' ? null : p.type,
    p.min !== null && p.min !== undefined ? words.start.from(value(p.min)) : null,
    p.max !== null && p.max !== undefined ? words.start.to(value(p.max)) : null,
  ].filter(Boolean);
  const common = {
    id,
    class: 'field',
    'aria-describedby': `${id}-hint`,
    'aria-invalid': bad ? true : undefined,
  };
  return (
    <div class={`param ${changed ? 'changed' : ''}`}>
      <label for={id} class="mono">
        {p.name}
      </label>
      {p.enum && p.enum.length > 0 ? (
        <select {...common} value={text} onChange={(e) => onChange(e.currentTarget.value)}>
          {p.enum.map((v) => (
            <option key={textOf(v)} value={textOf(v)}>
              {textOf(v)}
            </option>
          ))}
        </select>
      ) : p.type === 'bool' ? (
        <select {...common} value={text} onChange={(e) => onChange(e.currentTarget.value)}>
          <option value="true">true</option>
          <option value="false">false</option>
        </select>
      ) : (
        <input
          {...common}
          type="text"
          inputMode={p.type === 'int' ? 'numeric' : p.type === 'float' ? 'decimal' : undefined}
          value={text}
          onInput={(e) => onChange(e.currentTarget.value)}
        />
      )}
      <span id={`${id}-hint`} class={bad ? 'state tone-failed' : 'quiet'}>
        {bad ?? hints.join(' · ')}
        {changed && !bad ? ` · ${words.start.default(textOf(p.default) || words.none)}` : ''}
      </span>
    </div>
  );
}

const PLAN_TONE: Record<string, string> = {
  hit: 'hit',
  run: 'running',
  waiting: 'waiting',
  skipped: 'skipped',
  blocked: 'blocked',
};

function Form({
  pipeline,
  taken,
  from,
}: {
  pipeline: PipelineFacts;
  taken: Record<string, unknown> | null;
  from: string | null;
}) {
  const first = useMemo(() => {
    const g: Given = {};
    for (const p of pipeline.params)
      g[p.name] = textOf(taken && p.name in taken ? taken[p.name] : p.default);
    return g;
  }, [pipeline, taken]);
  const [given, setGiven] = useState<Given>(first);
  const [steps, setSteps] = useState<string[]>([]);
  const [keepGoing, setKeepGoing] = useState(false);
  const [plan, setPlan] = useState<Plan | null>(null);
  const [problem, setProblem] = useState<api.Problem | null>(null);
  const [busy, setBusy] = useState<'plan' | 'run' | null>(null);
  const p = project.value;
  const w = words.start;
  const bad = pipeline.params.some((x) => wrong(x, given[x.name] ?? ''));
  const params = paramsOf(pipeline.params, given);
  useEffect(() => setPlan(null), [JSON.stringify([given, steps])]);
  const command = [
    'cairn run',
    shellWord(pipeline.path),
    ...Object.entries(params).map(([k, v]) => `-p ${shellWord(`${k}=${v}`)}`),
    ...steps.map(shellWord),
  ].join(' ');

  const doPlan = async () => {
    setBusy('plan');
    setProblem(null);
    try {
      setPlan(
        await api.plan(
          { pipeline: pipeline.path, params, ...(steps.length ? { steps } : {}) },
          { project: p },
        ),
      );
    } catch (e) {
      setProblem(e as api.Problem);
    }
    setBusy(null);
  };
  const doRun = async () => {
    setBusy('run');
    setProblem(null);
    try {
      const wanted = {
        pipeline: pipeline.path,
        params,
        ...(steps.length ? { steps } : {}),
        keep_going: keepGoing,
      };
      const run = await launched(p, () => api.startRun(wanted, { project: p }));
      say(`${w.started}: ${run}`);
      go(url(`/runs/${part(run)}`, { project: projectQuery.value }));
    } catch (e) {
      setProblem(e as api.Problem);
    }
    setBusy(null);
  };
  return (
    <div class="stack wide">
      <Card
        title={w.params}
        aside={from ? <span class="quiet">{w.copyFrom(from)}</span> : undefined}
      >
        <form
          class="params"
          onSubmit={(e) => {
            e.preventDefault();
            if (!bad) void doPlan();
          }}
        >
          {pipeline.params.length === 0 && <p class="quiet">{words.none}</p>}
          {pipeline.params.map((x) => (
            <Field
              key={x.name}
              p={x}
              text={given[x.name] ?? ''}
              onChange={(v) => setGiven({ ...given, [x.name]: v })}
            />
          ))}
          <fieldset class="steps">
            <legend>
              {w.steps} <span class="quiet">{steps.length === 0 ? w.stepsHint : ''}</span>
            </legend>
            <div class="row">
              {pipeline.steps.map((s) => (
                <Check
                  key={s}
                  label={s}
                  checked={steps.includes(s)}
                  onChange={(on) =>
                    setSteps(
                      on
                        ? pipeline.steps.filter((x) => steps.includes(x) || x === s)
                        : steps.filter((x) => x !== s),
                    )
                  }
                />
              ))}
            </div>
          </fieldset>
          <Check label={w.keepGoing} checked={keepGoing} onChange={setKeepGoing} />
          <div class="row">
            <button
              type="submit"
              class={`btn ${plan ? '' : 'primary'}`}
              aria-disabled={bad || busy !== null}
            >
              {plan ? w.planAgain : w.plan}
            </button>
            <Action
              icon="play"
              kind={plan ? 'primary' : ''}
              label={w.run}
              why={whyNot('operator')}
              disabled={bad || !plan}
              busy={busy !== null}
              onClick={() => void doRun()}
            />
            <button
              type="button"
              class="btn bare"
              onClick={() => (
                setGiven(
                  Object.fromEntries(pipeline.params.map((x) => [x.name, textOf(x.default)])),
                ),
                setSteps([])
              )}
            >
              {w.reset}
            </button>
            {busy === 'run' && <span class="quiet">{w.launching}</span>}
          </div>
          <div class="row nowraprow copyable">
            <code class="ellipsis quiet">{command}</code>
            <Copy text={command} />
          </div>
        </form>
      </Card>
      {problem && <Trouble problem={problem} />}
      {busy === 'plan' && <Skeleton />}
      {plan && <PlanView plan={plan} />}
    </div>
  );
}

function PlanView({ plan }: { plan: Plan }) {
  const [all, setAll] = useState(false);
  const w = words.start;
  const rows = plan.tasks.filter((t) => all || t.state !== 'hit').slice(0, 2000);
  return (
    <Card
      title={w.planTitle}
      aside={
        <span class="row">
          <State state="running" word={w.wouldRun(plan.counts.run + plan.counts.waiting)} />
          <State state="hit" word={w.wouldHit(plan.counts.hits)} />
          {plan.estimate_ns ? <span class="quiet">~{duration(plan.estimate_ns)}</span> : null}
          {plan.counts.hits > 0 && (
            <Check label={words.states.hit!} checked={all} onChange={setAll} />
          )}
        </span>
      }
      flush
    >
      {rows.length === 0 ? (
        <p class="body second">{w.nothing}</p>
      ) : (
        <div class="tablewrap tall" tabIndex={0} role="group" aria-label={w.planTitle}>
          <table>
            <tbody>
              {rows.map((t) => (
                <tr key={t.task}>
                  <th scope="row">{t.task}</th>
                  <td>
                    <State state={PLAN_TONE[t.state] ?? 'waiting'} word={t.state} />
                  </td>
                  <td class="second">{t.reason}</td>
                  <td class="num quiet">{t.estimate_ns ? `~${duration(t.estimate_ns)}` : ''}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Card>
  );
}

/** Starts something and waits for its run's id. Fails with the launch's problem. */
export async function launched(
  project: string | null,
  start: () => Promise<api.Launched>,
): Promise<string> {
  const { launch } = await start();
  const until = Date.now() + 60_000;
  for (;;) {
    const l = await api.launch(launch, { project });
    if (l.run) return l.run;
    if (l.state === 'ended' || Date.now() > until)
      throw new api.Problem(500, l.problem ?? words.start.failed);
    await new Promise((r) => setTimeout(r, 250));
  }
}
