// What is selected in the list of runs, and what can be done with it. "All that match" means what the
// server says matches at the time of the action, not the rows that the list has read by then.

import { useState } from 'preact/hooks';
import * as api from '../api';
import { useLoad } from '../base/load';
import { projectQuery } from '../base/project';
import { go, url } from '../base/route';
import { whyNot } from '../base/session';
import { words } from '../base/words';
import { Action, Dialog, Trouble } from '../parts/bits';
import { say, sayProblem } from '../parts/toast';
import { matching, type Filters, type Row } from './runlist';

const COMPARED_MAX = 50;
const AT_ONCE = 6; // requests: a browser has no more connections to a server

export class Picked {
  /** With `all`, those that are left out; else those that are selected. */
  constructor(
    readonly rows: Map<string, Row> = new Map(),
    readonly all = false,
  ) {}

  has(id: string): boolean {
    return this.rows.has(id) !== this.all;
  }
  toggled(r: Row): Picked {
    const next = new Map(this.rows);
    if (!next.delete(r.id)) next.set(r.id, r);
    return new Picked(next, this.all);
  }
  /** null: not known yet. */
  count(total: number | null): number | null {
    return this.all
      ? total === null
        ? null
        : Math.max(total - this.rows.size, 0)
      : this.rows.size;
  }
}

async function cancelAll(rows: Row[]): Promise<void> {
  const left = [...rows];
  let problem: api.Problem | null = null;
  let asked = 0;
  const one = async () => {
    for (let r = left.pop(); r; r = left.pop())
      try {
        await api.cancelRun(r.id, {}, { project: r.project });
        asked++;
      } catch (e) {
        problem ??= e as api.Problem;
      }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  if (asked) say(words.runs.askedToStop(asked));
  if (problem) sayProblem(problem);
}

export function PickedActions({
  picked,
  total,
  names,
  filters,
  set,
}: {
  picked: Picked;
  total: number | null;
  names: string[];
  filters: Filters;
  set: (p: Picked) => void;
}) {
  const [asking, setAsking] = useState(false);
  const n = picked.count(total);
  const some = [...picked.rows.values()];
  const active = picked.all ? null : some.filter((r) => r.state === 'running');
  const mayRun = !filters.state || filters.state === 'running';
  const compare = async () => {
    const rows = picked.all
      ? await matching(names, filters, COMPARED_MAX + picked.rows.size)
      : some;
    const ids = rows.filter((r) => picked.has(r.id)).map((r) => r.id);
    go(
      url('/compare', {
        runs: ids.slice(0, COMPARED_MAX).join(','),
        project: projectQuery.value ?? rows[0]?.project,
      }),
    );
  };
  return (
    <>
      <span class="second" aria-live="polite">
        {n !== null && words.runs.selected(n)}
      </span>
      {!picked.all && total !== null && total > picked.rows.size && (
        <button type="button" class="btn bare" onClick={() => set(new Picked(new Map(), true))}>
          {words.runs.selectAll(total)}
        </button>
      )}
      {(active ? active.length > 0 : mayRun) && (
        <Action
          icon="stop"
          label={active ? words.runs.cancelAll(active.length) : words.runs.cancelMatching}
          why={whyNot('operator')}
          onClick={() => (active ? void cancelAll(active) : setAsking(true))}
        />
      )}
      <Action
        icon="compare"
        kind="primary"
        label={n === null ? words.run.actions.compare : words.runs.compare(n)}
        disabled={n === null || n < 2 || n > COMPARED_MAX}
        onClick={() => void compare().catch((e) => sayProblem(e as api.Problem))}
      />
      <button type="button" class="btn bare" onClick={() => set(new Picked())}>
        {words.runs.selectNone}
      </button>
      {asking && (
        <CancelMatching
          read={async (signal) =>
            (await matching(names, { ...filters, state: 'running' }, Infinity, signal)).filter(
              (r) => picked.has(r.id),
            )
          }
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

/** How many they are is asked first: nobody has seen them all. */
function CancelMatching({
  read,
  onClose,
}: {
  read: (signal: AbortSignal) => Promise<Row[]>;
  onClose: () => void;
}) {
  const running = useLoad(read, []);
  const n = running.value?.length;
  return (
    <Dialog title={words.runs.cancelMatching} onClose={onClose}>
      {running.problem && <Trouble problem={running.problem} again={running.again} />}
      <p aria-live="polite">{n === undefined ? words.loading : words.runs.cancelMatchingSays(n)}</p>
      <p class="second">{words.run.cancelSays}</p>
      <div class="row">
        <Action
          icon="stop"
          kind="danger"
          label={words.runs.cancelAll(n ?? 0)}
          disabled={!n}
          onClick={() => {
            onClose();
            void cancelAll(running.value ?? []);
          }}
        />
        <button type="button" class="btn bare" onClick={onClose}>
          {words.close}
        </button>
      </div>
    </Dialog>
  );
}
