// Schedules as a list, and their past and planned firings on a calendar in the reader's zone.

import { useState } from 'preact/hooks';
import * as api from '../api';
import type { CalendarEntry, Schedule } from '../api';
import { addDays, dayKey, monthOf, parseDay, weekOf, type Day } from '../base/days';
import { exact, shellWord } from '../base/format';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { part, place, setQuery, url } from '../base/route';
import { whyNot } from '../base/session';
import { words } from '../base/words';
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

function toneOf(state: string): string {
  const known: Record<string, string> = {
    succeeded: 'succeeded',
    done: 'succeeded',
    ended: 'succeeded',
    failed: 'failed',
    running: 'running',
    started: 'running',
    planned: 'planned',
    missed: 'missed',
    skipped: 'skipped',
    cancelled: 'cancelled',
    queued: 'waiting',
    claimed: 'waiting',
    replaced: 'cancelled',
    died: 'died',
    interrupted: 'interrupted',
  };
  return known[state] ?? 'unknown';
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
  const entries = useLoad(
    p && list.value
      ? async (signal) => {
          const all = await Promise.all(
            shown.map(async (s) => {
              try {
                const a = await api.calendar(
                  s.schedule,
                  { project: p, path: s.path, from: from.toISOString(), to: to.toISOString() },
                  signal,
                );
                return a.map((e): Shown => ({ ...e, schedule: s }));
              } catch (e) {
                if ((e as Error).name === 'AbortError') throw e;
                return [] as Shown[];
              }
            }),
          );
          return all.flat();
        }
      : null,
    [p, from.getTime(), to.getTime(), shown.map((s) => s.path + s.schedule).join()],
    true,
  );
  const act = async (what: () => Promise<unknown>, said: string) => {
    try {
      await what();
      say(said);
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
                <ScheduleLine key={s.path + s.schedule} s={s} only={only} act={act} />
              ))}
            </ul>
          </Card>
          <section class="card">
            <header>
              <h2>
                {scale === 'month'
                  ? at.toLocaleDateString('en-GB', { month: 'long', year: 'numeric' })
                  : `${from.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' })} – ${addDays(to, -1).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', year: 'numeric' })}`}
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
  act: (what: () => Promise<unknown>, said: string) => Promise<void>;
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
          onClick={() => void act(() => api.triggerSchedule(s.schedule, where), w.triggered)}
        />
        {s.paused ? (
          <Action
            icon="play"
            label={w.resume}
            kind="small"
            why={why}
            onClick={() => void act(() => api.resumeSchedule(s.schedule, where), w.isResumed)}
          />
        ) : (
          <Action
            icon="pause"
            label={w.pause}
            kind="small"
            why={why}
            onClick={() => void act(() => api.pauseSchedule(s.schedule, where), w.isPaused)}
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
      {asking && <Backfill s={s} onClose={() => setAsking(false)} />}
    </li>
  );
}

function Backfill({ s, onClose }: { s: Schedule; onClose: () => void }) {
  const today = new Date();
  const [from, setFrom] = useState(dayKey(addDays(today, -7)));
  const [to, setTo] = useState(dayKey(today));
  const command = `cairn schedule backfill ${shellWord(s.schedule)} ${from}..${to}`;
  return (
    <Dialog title={`${w.backfill}: ${s.schedule}`} onClose={onClose}>
      <p class="second">{w.backfillSays}</p>
      <div class="row">
        <label class="labelled">
          {w.backfillFrom}
          <input
            class="field"
            type="date"
            value={from}
            onChange={(e) => setFrom(e.currentTarget.value)}
          />
        </label>
        <label class="labelled">
          {w.backfillTo}
          <input
            class="field"
            type="date"
            value={to}
            onChange={(e) => setTo(e.currentTarget.value)}
          />
        </label>
      </div>
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
                {d.date.toLocaleDateString('en-GB', { weekday: 'short' })}
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
                        <li key={e.schedule.path + e.schedule.schedule + e.nominal}>
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
  const at = new Date(e.nominal);
  const body = (
    <>
      <StateIcon state={tone} size={11} />
      <span class="second">
        {at.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' })}
      </span>
      <span class="ellipsis">{e.schedule.schedule}</span>
      <span class="sr">{stateWord(tone === 'unknown' ? e.state : tone)}</span>
    </>
  );
  const title = `${e.schedule.schedule}: ${exact(at)} · ${e.state}${e.message ? ` · ${e.message}` : ''}`;
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
