// A log to read: virtual lines of one height, native scrolling (page keys, End and the wheel work as
// everywhere), search by the server, follow, links to lines. Whoever scrolls away isn't pulled back.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import { address } from '../api/request';
import { onKey, typing } from '../base/keys';
import { count } from '../base/format';
import { go, place as here, setQuery, url } from '../base/route';
import { recall, remember } from '../base/store';
import { words } from '../base/words';
import { copyText, Empty, IconButton, IconLink, Skeleton, Trouble } from '../parts/bits';
import { Icon } from '../parts/icons';
import { Span } from '../parts/span';
import { parse, plain, type Piece } from './ansi';
import type { LogPlace } from './place';
import { LogSource } from './source';

const ROW = 20;
const CUT = 2000;
const WRAP_MAX = 5000;
const FOLLOW_MS = 1000;
const MATCHES = 1000;
const MATCHES_MAX = 20_000;

/** '#L12' or '#L12-L20': the lines of a link, from 1. */
export function linesOf(hash: string): [number, number] | null {
  const m = /^#L(\d+)(?:-L?(\d+))?$/.exec(hash);
  if (!m) return null;
  const a = Number(m[1]);
  const b = m[2] ? Number(m[2]) : a;
  return a > 0 && b > 0 ? [Math.min(a, b), Math.max(a, b)] : null;
}

function styleOf(p: Piece): { class?: string; style?: Record<string, string> } {
  const s = p.style;
  if (!s) return {};
  const cls: string[] = [];
  const style: Record<string, string> = {};
  const [fg, bg] = s.inverse ? [s.bg ?? 'inv', s.fg ?? 'inv'] : [s.fg, s.bg];
  if (fg) {
    if (fg.startsWith('#')) style.color = fg;
    else cls.push(`fg-${fg}`);
  }
  if (bg) {
    if (bg.startsWith('#')) style.backgroundColor = bg;
    else cls.push(`bg-${bg}`);
  }
  if (s.bold) cls.push('a-b');
  if (s.dim) cls.push('a-d');
  if (s.italic) cls.push('a-i');
  if (s.underline) cls.push('a-u');
  return { class: cls.join(' '), style };
}

function marked(text: string, find: RegExp | null) {
  if (!find) return text;
  const out: preact.ComponentChildren[] = [];
  let at = 0;
  find.lastIndex = 0;
  for (let m = find.exec(text); m && out.length < 200; m = find.exec(text)) {
    if (m[0] === '') break;
    out.push(text.slice(at, m.index), <mark key={m.index}>{m[0]}</mark>);
    at = m.index + m[0].length;
  }
  if (out.length === 0) return text;
  out.push(text.slice(at));
  return out;
}

function Text({ line, find }: { line: string; find: RegExp | null }) {
  const [all, setAll] = useState(false);
  const pieces = useMemo(() => parse(all ? line : line.slice(0, CUT)), [line, all]);
  return (
    <>
      {pieces.map((p, i) =>
        p.style ? (
          <span key={i} {...styleOf(p)}>
            {marked(p.text, find)}
          </span>
        ) : (
          marked(p.text, find)
        ),
      )}
      {!all && line.length > CUT && (
        <button type="button" class="btn bare small" onClick={() => setAll(true)}>
          {words.log.cut(count(line.length - CUT))}
        </button>
      )}
    </>
  );
}

interface Found {
  text: string;
  lines: number[];
  more: boolean;
  at: number;
}

export default function LogView({
  where,
  running,
  empty,
  ranks,
}: {
  where: LogPlace;
  running: boolean;
  empty: string;
  ranks: number;
}) {
  const [, redraw] = useState(0);
  const [source, setSource] = useState<LogSource | null>(null);
  const area = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ scroll: 0, height: 400 });
  const pos = useRef(0); // in pixels of all lines; differs from the bar's when heights are scaled
  const expected = useRef<number | null>(null);
  const stuck = useRef(false); // to the end: what is above gets another height while a page is made
  const [follow, setFollow] = useState(running && !linesOf(here.value.hash));
  const followRef = useRef(follow);
  followRef.current = follow;
  const [wrap, setWrap] = useState(recall('wrap', false));
  const [picked, setPicked] = useState<[number, number] | null>(linesOf(here.value.hash));
  const jumped = useRef(false);
  const query = here.value.query.get('find') ?? '';
  const regex = here.value.query.get('regex') === '1';
  const [wrong, setWrong] = useState<string | null>(null);
  const [found, setFound] = useState<Found | null>(null);
  const key = JSON.stringify(where);

  useLayoutEffect(() => {
    const s = new LogSource(where, () => redraw((n) => n + 1));
    jumped.current = false;
    setSource(s);
    return () => s.close();
  }, [key]);

  const lines = source?.lines ?? 0;
  const span = new Span(lines, ROW, Math.max(ROW, view.height));
  const scaled = span.full !== span.height;
  const wrapped = wrap && lines <= WRAP_MAX && !!source?.indexed;

  const scrollTo = (px: number) => {
    const el = area.current;
    if (!el) return;
    pos.current = Math.max(0, Math.min(px, Math.max(0, span.full - view.height)));
    el.scrollTop = span.back(pos.current);
    stuck.current = px === Infinity;
    expected.current = el.scrollTop;
    setView({ scroll: el.scrollTop, height: el.clientHeight });
  };
  const toLine = (n: number) => {
    if (wrapped) {
      area.current?.querySelector(`[data-line="${n}"]`)?.scrollIntoView({ block: 'center' });
      return;
    }
    scrollTo((n - 1) * ROW - view.height / 3);
  };
  // A search answers later than its effect began: it moves what is shown by then. Before lines have
  // their numbers, the first look goes where it found something.
  const latest = useRef({ toLine, indexed: false });
  latest.current = { toLine, indexed: !!source?.indexed };
  const target = useRef<number | null>(null);
  const show = (n: number) => {
    target.current = n;
    if (latest.current.indexed) latest.current.toLine(n);
  };
  const toEnd = () => {
    const el = area.current;
    if (wrapped && el) {
      el.scrollTop = el.scrollHeight;
      stuck.current = true;
    } else scrollTo(Infinity);
  };

  useLayoutEffect(() => {
    const el = area.current;
    if (!el) return;
    const measure = () => setView({ scroll: el.scrollTop, height: el.clientHeight });
    const watch = new ResizeObserver(measure);
    watch.observe(el);
    measure();
    return () => watch.disconnect();
  }, [source?.ready, lines === 0]);

  // The first look: the linked line, else the end. Later the end only while following, or while
  // nobody has gone away from the end of a log that is whole.
  useLayoutEffect(() => {
    if (!source?.ready || lines === 0 || view.height < ROW) return;
    if (!jumped.current) {
      const linked = linesOf(here.value.hash)?.[0] ?? target.current;
      if (linked && !source.indexed) return;
      jumped.current = source.indexed;
      if (linked) toLine(linked);
      else toEnd();
    } else if (running ? followRef.current : stuck.current) toEnd();
  }, [source?.ready, source?.indexed, lines, view.height, wrapped]);

  useEffect(() => {
    if (!running || !source) return;
    const t = setInterval(() => {
      if (!document.hidden) void source.grow();
    }, FOLLOW_MS);
    return () => {
      clearInterval(t);
      void source.grow(); // what came with the end
    };
  }, [running, source]);

  useEffect(() => {
    setFound(null);
    setWrong(null);
    if (!query) return;
    const stop = new AbortController();
    // An answer covers a part of a large log; the search goes on by itself, and says so by a `+`.
    const lines: number[] = [];
    const top = Math.floor(pos.current / ROW) + 1;
    let shown = false;
    const search = async () => {
      let offset: number | null = 0;
      while (offset !== null && lines.length < MATCHES_MAX) {
        const a: api.LogMatches = await api.logSearch(
          where.run,
          {
            project: where.project ?? '',
            task: where.task,
            q: query,
            limit: MATCHES,
            offset,
            ...(where.attempt ? { attempt: where.attempt } : {}),
            ...(where.rank === null ? {} : { rank: where.rank }),
            ...(regex ? { regex } : {}),
          },
          stop.signal,
        );
        for (const m of a.matches)
          if (lines[lines.length - 1] !== m.line + 1) lines.push(m.line + 1);
        offset = a.next_offset;
        const next = lines.findIndex((l) => l >= top);
        const at = next >= 0 ? next : lines.length - 1;
        setFound((f) => ({
          text: query,
          lines: [...lines],
          more: offset !== null,
          at: shown ? (f?.at ?? at) : at,
        }));
        if (!shown && lines.length > 0 && (next >= 0 || offset === null)) {
          shown = true;
          setFollow(false);
          // Who came by a link to a line stays there.
          if (jumped.current || !linesOf(here.value.hash)) show(lines[at]!);
        }
      }
    };
    search().catch((e: api.Problem) => {
      if (e.name === 'AbortError') return;
      if (e.status === 400) setWrong(e.message);
      else setFound({ text: query, lines, more: false, at: lines.length - 1 });
    });
    return () => stop.abort();
  }, [query, regex, key]);

  const step = (by: number) => {
    if (!found || found.lines.length === 0) return;
    const at = (found.at + by + found.lines.length) % found.lines.length;
    setFound({ ...found, at });
    setFollow(false);
    toLine(found.lines[at]!);
  };

  const find = useMemo(() => {
    // A regular expression is the server's to match: here, one from a link could take forever. So its
    // lines are marked as a whole.
    if (!query || regex) return null;
    return new RegExp(query.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'), 'gi');
  }, [query, regex]);
  const matched = useMemo(() => new Set(regex ? found?.lines : []), [regex, found?.lines]);

  useEffect(
    () =>
      onKey((e) => {
        if (typing(e) || e.ctrlKey || e.metaKey) return;
        if (e.key === 'n' && found) step(1);
        else if (e.key === 'N' && found) step(-1);
        else if (e.key === 'f' && running) {
          setFollow(!followRef.current);
          if (!followRef.current) toEnd();
        } else return;
        return true;
      }),
    [found, running, view],
  );

  const pick = (n: number, more: boolean) => {
    const next: [number, number] =
      more && picked ? [Math.min(picked[0], n), Math.max(picked[0], n)] : [n, n];
    setPicked(next);
    setFollow(false);
    go(
      `${url(here.value.path, here.value.query)}#L${next[0]}${next[1] > next[0] ? `-L${next[1]}` : ''}`,
      { replace: true },
    );
  };

  const bar = (
    <div class="row logbar">
      <div class="search" role="search">
        <Icon name="search" />
        <input
          class="field"
          type="search"
          data-search
          aria-label={words.log.search}
          placeholder={words.log.search}
          value={query}
          onChange={(e) => setQuery({ find: e.currentTarget.value })}
          onKeyDown={(e) => {
            if (e.key !== 'Enter') return;
            e.preventDefault();
            if (e.currentTarget.value === query) step(e.shiftKey ? -1 : 1);
            else setQuery({ find: e.currentTarget.value });
          }}
        />
      </div>
      <button
        type="button"
        class="btn icon mono"
        aria-pressed={regex}
        aria-label={words.log.regex}
        title={words.log.regex}
        onClick={() => setQuery({ regex: !regex })}
      >
        .*
      </button>
      {wrong && (
        <span class="second" role="alert">
          {wrong}
        </span>
      )}
      {found && (
        <span class="row tight nowraprow">
          <span class="quiet nowrap" role="status">
            {words.log.matches(found.at + 1, found.lines.length, found.more)}
          </span>
          <IconButton icon="up" label={words.log.previous} onClick={() => step(-1)} />
          <IconButton icon="down" label={words.log.next} onClick={() => step(1)} />
        </span>
      )}
      {source?.firstError && (
        <button
          type="button"
          class="btn danger"
          onClick={() => (
            setFollow(false),
            pick(source.firstError!, false),
            toLine(source.firstError!)
          )}
        >
          {words.log.firstError}
        </button>
      )}
      <span class="grow" />
      {ranks > 1 && (
        <select
          class="field"
          aria-label={words.task.rank}
          value={here.value.query.get('rank') ?? ''}
          onChange={(e) => setQuery({ rank: e.currentTarget.value })}
        >
          <option value="">{words.task.allRanks}</option>
          {Array.from({ length: ranks }, (_, i) => (
            <option key={i} value={i}>
              {words.task.rank} {i}
            </option>
          ))}
        </select>
      )}
      {running && (
        <button
          type="button"
          class="btn"
          aria-pressed={follow}
          onClick={() => (setFollow(!follow), !follow && toEnd())}
        >
          {follow ? words.log.following : words.log.follow}
        </button>
      )}
      <IconButton
        icon="wrap"
        label={words.log.wrap}
        aria-pressed={wrap}
        onClick={() => (remember('wrap', !wrap), setWrap(!wrap))}
      />
      <IconButton
        icon="up"
        label={words.log.begin}
        onClick={() => (setFollow(false), wrapped ? (area.current!.scrollTop = 0) : scrollTo(0))}
      />
      <IconButton icon="down" label={words.log.end} onClick={toEnd} />
      <IconLink
        icon="download"
        label={words.log.raw}
        href={address(`/api/v1/runs/${encodeURIComponent(where.run)}/log`, {
          project: where.project,
          task: where.task,
          attempt: where.attempt,
        })}
        download={`${where.task.replace(/[^\w.-]+/g, '_')}.log`}
      />
    </div>
  );

  if (source?.problem) return <Trouble problem={source.problem} />;
  if (!source?.ready)
    return (
      <div class="log">
        {bar}
        <Skeleton lines={8} />
      </div>
    );
  if (lines === 0) return <Empty title={running ? words.log.emptyRunning : empty} />;

  const current = found && found.at >= 0 ? found.lines[found.at] : null;
  const digits = String(lines).length;
  const row = (i: number, style?: Record<string, string>) => {
    const text = source.line(i);
    const n = i + 1;
    const cls = ['logline'];
    if (picked && n >= picked[0] && n <= picked[1]) cls.push('picked');
    if (matched.has(n)) cls.push('matched');
    if (n === current) cls.push('current');
    return (
      <div key={i} class={cls.join(' ')} data-line={n} style={style}>
        {source.indexed ? (
          <a
            class="lineno"
            href={`#L${n}`}
            aria-label={words.log.line(n)}
            tabIndex={-1}
            onClick={(e) => {
              e.preventDefault();
              pick(n, e.shiftKey);
            }}
          >
            {n}
          </a>
        ) : (
          <span class="lineno" />
        )}
        <span class="linetext">
          {text === undefined ? (
            <span class="skeleton w2" />
          ) : text === null ? (
            <span class="quiet">…</span>
          ) : (
            <Text line={text} find={find} />
          )}
        </span>
      </div>
    );
  };

  const at = scaled ? pos.current : view.scroll;
  const first = Math.max(0, Math.floor(at / ROW) - 20);
  const last = Math.min(lines, Math.ceil((at + view.height) / ROW) + 20);
  const rows = [];
  if (wrapped) for (let i = 0; i < lines; i++) rows.push(row(i));
  else
    for (let i = first; i < last; i++)
      rows.push(
        row(i, { transform: `translateY(${scaled ? view.scroll + i * ROW - at : i * ROW}px)` }),
      );

  return (
    <div class="log">
      {bar}
      <div
        ref={area}
        class={`logarea ${wrapped ? 'wrapped' : ''}`}
        tabIndex={0}
        role="group"
        aria-label={words.log.label(where.task)}
        style={{ '--digits': String(digits) }}
        onScroll={(e) => {
          const el = e.currentTarget;
          if (expected.current === null || Math.abs(el.scrollTop - expected.current) > 1) {
            pos.current = span.at(el.scrollTop);
            stuck.current = el.scrollTop + el.clientHeight >= el.scrollHeight - ROW;
            // Whoever scrolls up reads: following ends. At the end it begins again.
            if (running) setFollow(stuck.current);
          }
          expected.current = null;
          setView({ scroll: el.scrollTop, height: el.clientHeight });
        }}
        onWheel={(e) => {
          if (!scaled || e.ctrlKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) return;
          e.preventDefault();
          if (e.deltaY < 0) setFollow(false);
          scrollTo(pos.current + e.deltaY * (e.deltaMode === 1 ? ROW : 1));
        }}
        onKeyDown={(e) => {
          if (e.target !== e.currentTarget || e.ctrlKey || e.metaKey) return;
          const page = view.height - 2 * ROW;
          const by: Record<string, number> = {
            PageDown: page,
            PageUp: -page,
            ArrowDown: ROW,
            ArrowUp: -ROW,
            ' ': e.shiftKey ? -page : page,
          };
          const d = by[e.key];
          if (e.key === 'Home') setFollow(false);
          if (e.key === 'End') toEnd();
          else if (scaled && d !== undefined) scrollTo(pos.current + d);
          else if (scaled && e.key === 'Home') scrollTo(0);
          else return;
          if (d !== undefined && d < 0) setFollow(false);
          e.preventDefault();
        }}
      >
        <div class="loglines" style={wrapped ? undefined : { height: `${span.height}px` }}>
          {rows}
        </div>
      </div>
      <div class="row logfoot">
        <span class="quiet">{source.indexed ? words.log.lines(lines) : ''}</span>
        <span class="grow" />
        {picked && (
          <>
            <button
              type="button"
              class="btn small"
              onClick={() =>
                void source
                  .range(picked[0] - 1, picked[1] - 1)
                  .then((t) => copyText(t.split('\n').map(plain).join('\n')))
              }
            >
              <Icon name="copy" size={12} /> {words.log.copyLines(picked[0], picked[1])}
            </button>
            <button type="button" class="btn small" onClick={() => void copyText(location.href)}>
              <Icon name="link" size={12} /> {words.log.copyLink}
            </button>
          </>
        )}
      </div>
    </div>
  );
}
