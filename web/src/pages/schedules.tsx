// Schedules as a list, and their past and planned firings on a calendar in the reader's zone. Both
// are live: a schedule of which something is told is put into the list, and its calendar alone is
// read again.

import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import type { CalendarEntry, Schedule } from '../api';
import { addDays, dayKey, monthOf, parseDay, weekOf, type Day } from '../base/days';
import { exact, inWords, shellWord } from '../base/format';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { part, place, setQuery, url } from '../base/route';
import { whyNot } from '../base/session';
import { words } from '../base/words';
import { subscribe } from '../live/live';
import {
  Action,
  Card,
  Copy,
  Dialog,
  Empty,
  Segmented,
  Skeleton,
  State,
  StateIcon,
  stateWord,
  Time,
  Trouble,
} from '../parts/bits';
import { say, sayProblem } from '../parts/toast';

type Shown = CalendarEntry & { schedule: Schedule };

const w = words.schedules;
const BACKFILL_SHOWN = 12;

/** The states of firings that look like another one; the others are named like states of runs. */
const TONES: Record<string, string> = { retrying: 'waiting', started: 'running' };
const toneOf = (state: string) => TONES[state] ?? state;

const idOf = (s: { path: string; schedule: string }) => `${s.path}\n${s.schedule}`;

async function firings(s: Schedule, project: string, from: Date, to: Date, signal: AbortSignal) {
  const query = { project, path: s.path, from: from.toISOString(), to: to.toISOString() };
  try {
    const all = await api.calendar(s.schedule, query, signal);
    return all.map((e): Shown => ({ ...e, schedule: s }));
  } catch (e) {
    if ((e as api.Problem).status === 404) return []; // it has just gone from its file
    throw e;
  }
}

export default function Schedules() {
  const p = project.value;
  const q = place.value.query;
  const list = useLoad(p ? (s) => api.schedules({ project: p }, s) : null, [p], true);
  const scale = q.get('scale') === 'week' ? 'week' : 'month';
  const at = parseDay(q.get('day')) ?? new Date();
  const days = scale === 'week' ? weekOf(at) : monthOf(at);
  const from = days[0]!.date;
  const to = addDays(days[days.length - 1]!.date, 1);
  const only = q.get('schedule');
  const schedules = list.value?.schedules ?? [];
  const shown = schedules.filter((s) => !only || s.schedule === only);
  const range = JSON.stringify([p, from.getTime(), to.getTime(), shown.map(idOf)]);
  const known = useRef({ range: '', of: new Map<string, Shown[]>() });
  const stale = useRef(new Set<string>());
  const entries = useLoad(
    p && list.value
      ? async (signal) => {
          const whole = known.current.range !== range;
          const these = whole ? shown : shown.filter((s) => stale.current.has(idOf(s)));
          const of = new Map(whole ? [] : known.current.of);
          stale.current = new Set();
          try {
            for (const [id, list] of await Promise.all(
              these.map(async (s) => [idOf(s), await firings(s, p, from, to, signal)] as const),
            ))
              of.set(id, list);
          } catch (e) {
            for (const s of these) stale.current.add(idOf(s));
            throw e;
          }
          known.current = { range, of };
          return [...of.values()].flat();
        }
      : null,
    [range],
    true,
  );
  const now = useRef({ list, entries });
  now.current = { list, entries };
  useEffect(() => {
    let timer = 0;
    const stop = subscribe((batch) => {
      for (const h of batch) {
        const { list } = now.current;
        if (h.kind === 'reset' || h.kind === 'open') {
          for (const s of list.value?.schedules ?? []) stale.current.add(idOf(s));
          list.again();
        } else if (h.kind !== 'task' && (h.data.project ?? p) === p && h.data.schedule) {
          const id = idOf({ path: h.data.path ?? '', schedule: h.data.schedule });
          stale.current.add(id);
          if (h.kind === 'run') continue;
          const all = list.value?.schedules;
          if (!all?.some((s) => idOf(s) === id)) list.again();
          else list.set({ schedules: all.map((s) => (idOf(s) === id ? h.data : s)) });
        }
      }
      if (!stale.current.size || timer) return;
      timer = window.setTimeout(() => {
        timer = 0;
        now.current.entries.again();
      }, 300);
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [p]);
  const act = async (s: Schedule, what: () => Promise<unknown>, said: string) => {
    try {
      await what();
      say(said);
      stale.current.add(idOf(s));
      list.again();
      entries.again();
    } catch (e) {
      sayProblem(e as api.Problem);
    }
  };
  if (list.problem && !list.value) return <Trouble problem={list.problem} again={list.again} />;
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
        <span class="quiet">{w.editing}</span>
      </div>
      {list.first && <Skeleton />}
      {list.value && schedules.length === 0 && (
        <Empty title={w.empty} hint={w.emptyHint} command={w.emptyCommand} />
      )}
      {schedules.length > 0 && (
        <>
          <Card title={w.list} flush>
            <ul class="lines">
              {schedules.map((s) => (
                <ScheduleLine key={idOf(s)} s={s} only={only} act={act} />
              ))}
            </ul>
          </Card>
          <section class="card">
            <header>
              <h2>
                {scale === 'month'
                  ? inWords('month', at)
                  : `${inWords('date', from)} – ${inWords('fullDate', addDays(to, -1))}`}
              </h2>
              <Segmented
                label={w.calendar}
                value={scale}
                options={
                  [
                    ['month', w.month],
                    ['week', w.week],
                  ] as const
                }
                onChange={(v) => setQuery({ scale: v === 'week' ? 'week' : null })}
              />
              <span class="segmented">
                <button
                  type="button"
                  class="btn"
                  onClick={() =>
                    setQuery({
                      day: dayKey(
                        scale === 'week'
                          ? addDays(from, -7)
                          : new Date(at.getFullYear(), at.getMonth() - 1, 1),
                      ),
                    })
                  }
                >
                  {w.previous}
                </button>
                <button type="button" class="btn" onClick={() => setQuery({ day: null })}>
                  {w.today}
                </button>
                <button
                  type="button"
                  class="btn"
                  onClick={() =>
                    setQuery({
                      day: dayKey(
                        scale === 'week'
                          ? addDays(from, 7)
                          : new Date(at.getFullYear(), at.getMonth() + 1, 1),
                      ),
                    })
                  }
                >
                  {w.following}
                </button>
              </span>
            </header>
            {entries.problem && <Trouble problem={entries.problem} again={entries.again} />}
            <Calendar days={days} entries={entries.value ?? []} most={scale === 'week' ? 40 : 5} />
          </section>
        </>
      )}
    </>
  );
}

function ScheduleLine({
  s,
  only,
  act,
}: {
  s: Schedule;
  only: string | null;
  act: (s: Schedule, what: () => Promise<unknown>, said: string) => Promise<void>;
}) {
  const [asking, setAsking] = useState(false);
  const where = { project: project.value ?? '', path: s.path };
  const why = whyNot('operator');
  const rule =
    s.cron ??
    (s.on?.webhook
      ? `webhook ${s.on.webhook}`
      : s.on?.pipeline
        ? `${s.on.pipeline} ${s.on.state ?? ''}`
        : words.none);
  return (
    <li class="line">
      <span class="grow stack close">
        <span class="row tight">
          <button
            type="button"
            class="btn bare small name"
            aria-pressed={only === s.schedule}
            onClick={() => setQuery({ schedule: only === s.schedule ? null : s.schedule })}
          >
            <strong>{s.schedule}</strong>
          </button>
          <code class="second">{rule}</code>
          {s.timezone && (
            <span class="tag" title={w.zone(s.timezone)}>
              {s.timezone}
            </span>
          )}
          {s.overlap && <span class="tag">{`${w.overlap}: ${s.overlap}`}</span>}
          {s.catch_up && <span class="tag">{`${w.catchUp}: ${s.catch_up}`}</span>}
        </span>
        <span class="quiet small">{s.path}</span>
      </span>
      {s.broken ? (
        <State state="failed" word={w.broken} />
      ) : s.paused ? (
        <State state="paused" />
      ) : s.open > 0 ? (
        <State state="running" word={w.open(s.open)} />
      ) : null}
      {s.last?.nominal && (
        <span class="second nowrap">
          {w.last}{' '}
          {s.last.run ? (
            <a
              class={`tone-${toneOf(s.last.state)}`}
              href={url(`/runs/${part(s.last.run)}`, { project: projectQuery.value })}
            >
              <StateIcon state={toneOf(s.last.state)} size={11} /> <Time at={s.last.nominal} />
            </a>
          ) : (
            <span class={`tone-${toneOf(s.last.state)}`} title={s.last.message ?? undefined}>
              <StateIcon state={toneOf(s.last.state)} size={11} /> <Time at={s.last.nominal} />
            </span>
          )}
          <span class="sr">{stateWord(s.last.state)}</span>
        </span>
      )}
      <span class="second nowrap">
        {s.next && !s.paused ? (
          <>
            {w.next} <Time at={s.next} />
          </>
        ) : s.on ? (
          w.event
        ) : (
          ''
        )}
      </span>
      <span class="row tight">
        <Action
          icon="play"
          label={w.trigger}
          kind="small"
          why={why}
          onClick={() => void act(s, () => api.triggerSchedule(s.schedule, where), w.triggered)}
        />
        {s.paused ? (
          <Action
            icon="play"
            label={w.resume}
            kind="small"
            why={why}
            onClick={() => void act(s, () => api.resumeSchedule(s.schedule, where), w.isResumed)}
          />
        ) : (
          <Action
            icon="pause"
            label={w.pause}
            kind="small"
            why={why}
            onClick={() => void act(s, () => api.pauseSchedule(s.schedule, where), w.isPaused)}
          />
        )}
        {s.cron && (
          <Action
            icon="calendar"
            label={w.backfill}
            kind="small"
            why={why}
            onClick={() => setAsking(true)}
          />
        )}
      </span>
      {asking && (
        <Backfill
          s={s}
          onClose={() => setAsking(false)}
          fire={(range) => {
            setAsking(false);
            void act(s, () => api.backfillSchedule(s.schedule, range, where), w.backfilled);
          }}
        />
      )}
    </li>
  );
}

/** The times of the range are shown before any of them fires. */
function Backfill({
  s,
  onClose,
  fire,
}: {
  s: Schedule;
  onClose: () => void;
  fire: (range: { from: string; to: string }) => void;
}) {
  const today = new Date();
  const [first, setFirst] = useState(dayKey(addDays(today, -7)));
  const [last, setLast] = useState(dayKey(today));
  const from = parseDay(first);
  const to = parseDay(last);
  const range =
    from && to && from <= to
      ? { from: from.toISOString(), to: new Date(addDays(to, 1).getTime() - 1).toISOString() }
      : null;
  const where = { project: project.value ?? '', path: s.path };
  const times = useLoad(
    range
      ? (signal) => api.backfillSchedule(s.schedule, { ...range, dry_run: true }, where, signal)
      : null,
    [range],
  );
  const n = range ? times.value?.times.length : undefined;
  const command = `cairn schedule backfill ${shellWord(s.schedule)} ${range?.from ?? first}..${range?.to ?? last}`;
  return (
    <Dialog title={`${w.backfill}: ${s.schedule}`} onClose={onClose}>
      <p class="second">{w.backfillSays}</p>
      <div class="row">
        <label class="labelled">
          {w.backfillFrom}
          <input
            class="field"
            type="date"
            value={first}
            onChange={(e) => setFirst(e.currentTarget.value)}
          />
        </label>
        <label class="labelled">
          {w.backfillTo}
          <input
            class="field"
            type="date"
            value={last}
            onChange={(e) => setLast(e.currentTarget.value)}
          />
        </label>
      </div>
      {times.problem && <Trouble problem={times.problem} again={times.again} />}
      <p aria-live="polite">
        {!range ? w.backfillOrder : n === undefined ? words.loading : w.backfillTimes(n)}
      </p>
      {!!n && (
        <ul class="row tight">
          {times.value!.times.slice(0, BACKFILL_SHOWN).map((t) => (
            <li key={t} class="tag">
              <Time at={t} how="moment" />
            </li>
          ))}
          {n > BACKFILL_SHOWN && <li class="quiet">{w.moreOnDay(n - BACKFILL_SHOWN)}</li>}
        </ul>
      )}
      <div class="row">
        <Action
          icon="calendar"
          label={w.backfillFire}
          kind="primary"
          disabled={!n}
          onClick={() => range && fire(range)}
        />
        <button type="button" class="btn bare" onClick={onClose}>
          {words.close}
        </button>
      </div>
      <p class="second">{w.backfillCommand}</p>
      <div class="row nowraprow">
        <code class="ellipsis">{command}</code>
        <Copy text={command} />
      </div>
    </Dialog>
  );
}

function Calendar({ days, entries, most }: { days: Day[]; entries: Shown[]; most: number }) {
  const byDay = new Map<string, Shown[]>();
  for (const e of entries) {
    const k = dayKey(new Date(e.nominal));
    const l = byDay.get(k);
    if (l) l.push(e);
    else byDay.set(k, [e]);
  }
  for (const l of byDay.values()) l.sort((a, b) => (a.nominal < b.nominal ? -1 : 1));
  const weeks: Day[][] = [];
  for (let i = 0; i < days.length; i += 7) weeks.push(days.slice(i, i + 7));
  const today = dayKey(new Date());
  return (
    <div class="tablewrap">
      <table class="calendar" aria-label={w.calendar}>
        <thead>
          <tr>
            {days.slice(0, 7).map((d) => (
              <th scope="col" key={d.key}>
                {inWords('weekday', d.date)}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {weeks.map((week) => (
            <tr key={week[0]!.key}>
              {week.map((d) => {
                const all = byDay.get(d.key) ?? [];
                return (
                  <td
                    key={d.key}
                    class={`${d.inMonth ? '' : 'out'} ${d.key === today ? 'today' : ''}`}
                  >
                    <span class="daynum">{d.date.getDate()}</span>
                    <ul>
                      {all.slice(0, most).map((e) => (
                        <li key={idOf(e.schedule) + e.nominal}>
                          <Firing e={e} />
                        </li>
                      ))}
                    </ul>
                    {all.length > most && (
                      <a
                        class="quiet"
                        href={url('/schedules', {
                          ...Object.fromEntries(place.value.query),
                          scale: 'week',
                          day: d.key,
                        })}
                      >
                        {w.moreOnDay(all.length - most)}
                      </a>
                    )}
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Firing({ e }: { e: Shown }) {
  const tone = toneOf(e.state);
  const word = words.states[e.state] ?? stateWord(tone);
  const at = new Date(e.nominal);
  const body = (
    <>
      <StateIcon state={tone} size={11} />
      <span class="second">{inWords('clock', at)}</span>
      <span class="ellipsis">{e.schedule.schedule}</span>
      {e.times > 1 && <span class="badge">{w.times(e.times)}</span>}
      <span class="sr">{word}</span>
    </>
  );
  const title = `${e.schedule.schedule}: ${exact(at)} · ${word}${e.times > 1 ? ` · ${w.stands(e.times)}` : ''}${e.message ? ` · ${e.message}` : ''}`;
  return e.run ? (
    <a
      class={`firing tone-${tone}`}
      href={url(`/runs/${part(e.run)}`, { project: projectQuery.value })}
      title={title}
    >
      {body}
    </a>
  ) : (
    <span class={`firing tone-${tone}`} title={title}>
      {body}
    </span>
  );
}
