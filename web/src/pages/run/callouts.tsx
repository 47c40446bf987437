// What a person has to know or decide first: the question of a step, and the first failure with the
// last lines of its log.

import { useState } from 'preact/hooks';
import * as api from '../../api';
import type { Run } from '../../api';
import { fetchRaw } from '../../api/request';
import { useLoad } from '../../base/load';
import { part, place, url } from '../../base/route';
import { whyNot } from '../../base/session';
import { words } from '../../base/words';
import { plain } from '../../log/ansi';
import { Action, StateIcon, Time } from '../../parts/bits';
import { say, sayProblem } from '../../parts/toast';
import type { RunModel } from './model';

type Asked = NonNullable<Run['approvals']>[number];

function Question({ run, model, asked }: { run: Run; model: RunModel; asked: Asked }) {
  const [note, setNote] = useState('');
  const [busy, setBusy] = useState(false);
  const { task, approval } = asked;
  const answer = async (approve: boolean) => {
    setBusy(true);
    try {
      await api.approveStep(
        run.id,
        { task, approve, ...(note ? { message: note } : {}) },
        { project: model.project ?? '' },
      );
      say(words.run.approved);
      void model.read();
    } catch (e) {
      sayProblem(e as api.Problem);
    }
    setBusy(false);
  };
  return (
    <section class="callout tone-approval" aria-label={words.run.approvalAsked}>
      <h2>
        <StateIcon state="approval" /> {words.run.approvalAsked}: {task}
      </h2>
      <div class="stack">
        {approval?.message && <p class="prewrap">{approval.message}</p>}
        <div class="row quiet">
          {approval && approval.by.length > 0 && (
            <span>
              {words.run.approvalBy}: {approval.by.join(', ')}
            </span>
          )}
          {approval?.until && (
            <span>
              {words.run.approvalUntil} <Time at={approval.until} how="moment" />
            </span>
          )}
        </div>
        <div class="row">
          <input
            class="field w260"
            aria-label={words.run.approvalNote}
            placeholder={words.run.approvalNote}
            value={note}
            onInput={(e) => setNote(e.currentTarget.value)}
          />
          <Action
            icon="check"
            kind="primary"
            label={words.run.approve}
            why={whyNot('operator')}
            busy={busy}
            onClick={() => void answer(true)}
          />
          <Action
            icon="close"
            kind="danger"
            label={words.run.refuse}
            why={whyNot('operator')}
            busy={busy}
            onClick={() => void answer(false)}
          />
        </div>
      </div>
    </section>
  );
}

/** What the run asks people: a question a task. */
export function Approvals({ run, model }: { run: Run; model: RunModel }) {
  const asked = run.state === 'running' ? (run.approvals ?? []) : [];
  return (
    <>
      {asked.map((a) => (
        <Question key={a.task} run={run} model={model} asked={a} />
      ))}
    </>
  );
}

const TAIL = 4096;

export function FirstFailure({ run, model }: { run: Run; model: RunModel; version: number }) {
  let first: { task: string; end: number } | null = null;
  for (const t of model.tasks.values())
    if (t.state === 'failed' && (!first || (t.end ?? Infinity) < first.end))
      first = { task: t.task, end: t.end ?? Infinity };
  const task = first?.task ?? null;
  const facts = useLoad(
    task ? (s) => api.taskRows(run.id, { project: model.project, task }, s) : null,
    [run.id, task],
  );
  const tail = useLoad(
    task
      ? async (s) => {
          const a = await fetchRaw(
            'GET',
            `/api/v1/runs/${encodeURIComponent(run.id)}/log`,
            { project: model.project, task, lines: 8 },
            undefined,
            s,
          );
          const text = await a.text();
          return text.slice(-TAIL).trimEnd().split('\n').slice(-8).map(plain).join('\n');
        }
      : null,
    [run.id, task],
  );
  if (!task)
    return run.message && model.loadedTasks ? (
      <section class="callout tone-failed" aria-label={words.run.firstFailure}>
        <h2>
          <StateIcon state="failed" /> {run.message}
        </h2>
      </section>
    ) : null;
  const row = facts.value?.tasks.find((t) => t.task === task);
  const q = { project: place.value.query.get('project'), view: place.value.query.get('view') };
  const href = url(`/runs/${part(run.id)}/tasks/${part(task)}`, q);
  return (
    <section class="callout tone-failed" aria-label={words.run.firstFailure}>
      <div class="row apart">
        <h2>
          <StateIcon state="failed" /> {words.run.firstFailure}: <a href={href}>{task}</a>
        </h2>
        <a
          class="btn small"
          href={url(`/runs/${part(run.id)}/tasks/${part(task)}`, { ...q, tab: 'log' })}
        >
          {words.run.openLog}
        </a>
      </div>
      {(row?.message ?? run.message) && <p>{row?.message ?? run.message}</p>}
      {tail.value && (
        <pre tabIndex={0} aria-label={words.run.lastLines}>
          {tail.value}
        </pre>
      )}
    </section>
  );
}
