// What a content is: a directory to browse, or a file shown as what it is, in parts. Bytes of users
// are shown as text, by <img>, or in a sandboxed frame under /view/; never as markup of this page.

import { useEffect, useMemo, useState } from 'preact/hooks';
import * as api from '../api';
import type { Entry } from '../api';
import { fetchRaw } from '../api/request';
import { bytes, count, shortHash, value } from '../base/format';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { go, part, place, url } from '../base/route';
import { words } from '../base/words';
import { Card, Copy, Empty, Skeleton, Trouble } from '../parts/bits';
import { Icon } from '../parts/icons';
import { VTable } from '../parts/vtable';
import { hexDump, kindOf, looksLikeText, type Kind } from './kinds';

const w = words.artifact;
const PART = 256 << 10;

export default function Artifact({ params }: { params: Record<string, string> }) {
  const id = params.content;
  return id ? <Shown key={id} id={id} /> : <Find />;
}

function Find() {
  const [text, setText] = useState('');
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
      </div>
      <form
        class="row"
        onSubmit={(e) => {
          e.preventDefault();
          if (text.trim())
            go(url(`/artifacts/${part(text.trim())}`, { project: projectQuery.value }));
        }}
      >
        <input
          class="field w260 mono"
          data-search
          aria-label={w.find}
          placeholder={w.findHint}
          value={text}
          onInput={(e) => setText(e.currentTarget.value)}
        />
        <button type="submit" class="btn">
          {w.content}
        </button>
      </form>
    </>
  );
}

function Shown({ id }: { id: string }) {
  const p = project.value;
  const q = place.value.query;
  const path = q.get('path') ?? '';
  const facts = useLoad(p ? (s) => api.contentFacts(id, { project: p }, s) : null, [id, p]);
  const f = facts.value;
  const name = q.get('name') ?? f?.names[0]?.output ?? shortHash(id);
  const isTree = f?.kind === 'tree';
  const parts = path ? path.split('/') : [];
  const dir = isTree ? (q.get('dir') !== null ? path : parts.slice(0, -1).join('/')) : '';
  const atRoot = isTree && path === '';
  const keep = { project: q.get('project'), name: q.get('name') };
  const here = (to: string, isDir: boolean) =>
    url(`/artifacts/${part(id)}`, { ...keep, path: to, dir: isDir && to ? '1' : null });
  const entries = useLoad(
    f && isTree && p
      ? (s) => api.contentEntries(id, { project: p, path: dir || null, limit: 500 }, s)
      : null,
    [id, p, dir, isTree],
    true,
  );
  const file = isTree ? (atRoot || q.get('dir') !== null ? null : path) : '';
  const entry = file
    ? entries.value?.entries.find((e) => e.name === parts[parts.length - 1])
    : undefined;
  if (facts.problem)
    return facts.problem.status === 404 && !/nothing at this path/.test(facts.problem.detail) ? (
      <Empty title={w.notFound} hint={w.notFoundHint} command={w.notFoundCommand} />
    ) : (
      <Trouble problem={facts.problem} again={facts.again} />
    );
  if (!f) return <Skeleton />;
  return (
    <>
      <div class="crumbs">
        <a href={here('', false)}>{name}</a>
        {parts.map((x, i) => (
          <span key={i}>
            <span aria-hidden="true">/ </span>
            <a
              href={here(
                parts.slice(0, i + 1).join('/'),
                i < parts.length - 1 || q.get('dir') !== null,
              )}
            >
              {x}
            </a>
          </span>
        ))}
      </div>
      <div class="pagehead">
        <h1 class="ellipsis">{parts[parts.length - 1] ?? name}</h1>
        <span class="row tight copyable">
          <span class="hash" title={f.content}>
            {shortHash(f.content)}
          </span>
          <Copy text={f.content} />
        </span>
        <span class="quiet">{bytes(entry?.size ?? f.size)}</span>
        <span class="grow" />
        <a class="btn" href={url(`/lineage/${part(id)}`, { project: q.get('project') })}>
          <Icon name="lineage" size={14} /> {w.made}
        </a>
        <a
          class="btn"
          href={url(`/lineage/${part(id)}`, {
            project: q.get('project'),
            direction: 'down',
          })}
        >
          {w.used}
        </a>
      </div>
      {f.names.length > 0 && (
        <p class="second">
          {w.names}{' '}
          {f.names.slice(0, 6).map((n, i) => (
            <span key={i}>
              {i > 0 ? ', ' : ''}
              <a
                href={url(`/runs/${part(n.run ?? '')}/tasks/${part(n.task)}`, {
                  project: q.get('project'),
                })}
              >
                {n.task}/{n.output}
              </a>{' '}
              <span class="quiet">{n.run}</span>
            </span>
          ))}
          {f.names.length > 6 ? ` +${f.names.length - 6}` : ''}
        </p>
      )}
      {f.kind === 'reference' ? (
        <Empty title={w.reference} />
      ) : (
        <div class={isTree ? 'browser' : ''}>
          {isTree && (
            <Card
              title={dir || w.root}
              aside={
                <span class="quiet">
                  {entries.value?.total !== null && entries.value?.total !== undefined
                    ? w.entries(entries.value.total)
                    : ''}
                </span>
              }
              flush
            >
              {entries.first && (
                <div class="body">
                  <Skeleton />
                </div>
              )}
              {entries.problem && <Trouble problem={entries.problem} again={entries.again} />}
              {entries.value && (
                <EntryList
                  entries={entries.value.entries}
                  dir={dir}
                  current={file}
                  href={here}
                  id={id}
                  next={entries.value.next}
                />
              )}
            </Card>
          )}
          {isTree && file === null && !!entries.value?.entries.length && (
            <Empty title={w.chooseFile} />
          )}
          {(!isTree || file !== null) && p && (!isTree || entry || !entries.first) && (
            <FileView
              key={`${id} ${file}`}
              id={id}
              path={file ?? ''}
              name={file || name}
              size={entry?.size ?? f.size}
              type={isTree ? null : f.type}
            />
          )}
        </div>
      )}
    </>
  );
}

function EntryList({
  entries,
  dir,
  current,
  href,
  id,
  next,
}: {
  entries: Entry[];
  dir: string;
  current: string | null;
  href: (to: string, isDir: boolean) => string;
  id: string;
  next: string | null;
}) {
  const [more, setMore] = useState<Entry[]>([]);
  const [cursor, setCursor] = useState(next);
  useEffect(() => {
    setMore([]);
    setCursor(next);
  }, [entries]);
  const all = [...entries, ...more];
  if (all.length === 0) return <p class="body quiet">{w.emptyTree}</p>;
  const full = (n: string) => (dir ? `${dir}/${n}` : n);
  return (
    <ul class="entries">
      {dir && (
        <li>
          <a href={href(dir.split('/').slice(0, -1).join('/'), true)}>
            <Icon name="up" size={14} /> ..
          </a>
        </li>
      )}
      {all.map((e) => (
        <li key={e.name}>
          {e.kind === 'symlink' ? (
            <span class="quiet">
              <Icon name="link" size={14} /> {e.name} → {e.target}
            </span>
          ) : (
            <a
              href={href(full(e.name), e.kind === 'directory')}
              aria-current={current === full(e.name) ? 'true' : undefined}
            >
              <Icon name={e.kind === 'directory' ? 'folder' : 'file'} size={14} />
              <span class="ellipsis">{e.name}</span>
              <span class="quiet note">{e.kind === 'directory' ? '' : bytes(e.size)}</span>
            </a>
          )}
        </li>
      ))}
      {cursor && (
        <li>
          <button
            type="button"
            class="btn bare"
            onClick={() =>
              void api
                .contentEntries(id, {
                  project: project.value,
                  path: dir || null,
                  limit: 500,
                  cursor,
                })
                .then((a) => {
                  setMore([...more, ...a.entries]);
                  setCursor(a.next);
                })
            }
          >
            {words.more}
          </button>
        </li>
      )}
    </ul>
  );
}

/** Where the server serves these bytes in its sandbox, for a while. */
function useView(
  id: string,
  path: string,
  name: string,
): { src: string | null; problem: api.Problem | null } {
  const v = useLoad(
    (s) =>
      s.aborted
        ? Promise.reject(new Error('aborted'))
        : api.makeView({ content: id }, { project: project.value }),
    [id],
  );
  const file = path || (/\.[\w]+$/.test(name) ? name : 'file');
  return {
    src: v.value ? v.value.base + file.split('/').map(encodeURIComponent).join('/') : null,
    problem: v.problem,
  };
}

function FileView({
  id,
  path,
  name,
  size,
  type,
}: {
  id: string;
  path: string;
  name: string;
  size: number;
  type: string | null;
}) {
  const guessed = kindOf(name, type);
  const [kind, setKind] = useState<Kind>(guessed);
  const view = useView(id, path, name.split('/').pop() ?? name);
  const asText =
    guessed === 'page' ||
    guessed === 'svg' ||
    guessed === 'json' ||
    guessed === 'table' ||
    guessed === 'notebook';
  return (
    <Card
      title={<span class="ellipsis">{name.split('/').pop()}</span>}
      aside={
        <span class="row tight nowraprow">
          {asText && (
            <button
              type="button"
              class="btn small"
              aria-pressed={kind === 'text'}
              onClick={() => setKind(kind === 'text' ? guessed : 'text')}
            >
              {w.text}
            </button>
          )}
          {view.src && (
            <a class="btn small" href={`${view.src}?download=1`} download>
              <Icon name="download" size={12} /> {words.download}
            </a>
          )}
        </span>
      }
      flush
    >
      {kind === 'table' ? (
        <TableView id={id} path={path} otherwise={() => setKind('text')} />
      ) : kind === 'shard' ? (
        <ShardView id={id} path={path} view={view.src} otherwise={() => setKind('unknown')} />
      ) : kind === 'json' ? (
        <JsonView id={id} path={path} size={size} />
      ) : kind === 'text' || kind === 'unknown' || kind === 'notebook' ? (
        <TextView id={id} path={path} size={size} />
      ) : view.problem ? (
        <Trouble problem={view.problem} />
      ) : !view.src ? (
        <div class="body">
          <Skeleton />
        </div>
      ) : kind === 'image' || kind === 'svg' ? (
        <div class="picture">
          <img src={view.src} alt={name} />
        </div>
      ) : kind === 'audio' ? (
        <div class="body">
          <audio controls preload="metadata" src={view.src} aria-label={name} />
        </div>
      ) : kind === 'video' ? (
        <div class="picture">
          <video controls preload="metadata" src={view.src} aria-label={name} />
        </div>
      ) : (
        <>
          <iframe
            class="sandbox"
            src={view.src}
            title={w.viewTitle(name)}
            {...(kind === 'pdf' ? {} : { sandbox: 'allow-scripts' })}
            referrerpolicy="no-referrer"
          />
          <p class="body quiet small">{w.sandboxed}</p>
        </>
      )}
    </Card>
  );
}

async function readBytes(
  id: string,
  path: string,
  offset: number,
  n: number,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  const a = await fetchRaw(
    'GET',
    `/api/v1/content/${encodeURIComponent(id)}/bytes`,
    { project: project.value, path: path || null, offset, bytes: n },
    undefined,
    signal,
  );
  return new Uint8Array(await a.arrayBuffer());
}

function TextView({ id, path, size }: { id: string; path: string; size: number }) {
  const [parts, setParts] = useState<Uint8Array[]>([]);
  const [problem, setProblem] = useState<api.Problem | null>(null);
  const have = parts.reduce((n, b) => n + b.length, 0);
  useEffect(() => {
    const stop = new AbortController();
    readBytes(id, path, 0, Math.min(PART, Math.max(1, size)), stop.signal).then(
      (b) => setParts([b]),
      (e: api.Problem) => e.name !== 'AbortError' && setProblem(e),
    );
    return () => stop.abort();
  }, [id, path]);
  const text = useMemo(() => {
    const all = new Uint8Array(have);
    let at = 0;
    for (const b of parts) {
      all.set(b, at);
      at += b.length;
    }
    return looksLikeText(all) || have === 0 ? new TextDecoder().decode(all) : null;
  }, [parts]);
  if (problem) return <Trouble problem={problem} />;
  if (parts.length === 0)
    return (
      <div class="body">
        <Skeleton />
      </div>
    );
  return (
    <>
      {text === null ? (
        <>
          <p class="body second">{w.binary}</p>
          <pre class="filetext" tabIndex={0} aria-label={w.hex}>
            {hexDump(parts[0]!.subarray(0, 2048))}
          </pre>
        </>
      ) : (
        <pre class="filetext" tabIndex={0} aria-label={w.text}>
          {text}
        </pre>
      )}
      {text !== null && have < size && (
        <div class="row body">
          <span class="quiet">{w.truncated(bytes(have), bytes(size))}</span>
          <button
            type="button"
            class="btn"
            onClick={() =>
              void readBytes(id, path, have, Math.min(PART, size - have)).then(
                (b) => setParts([...parts, b]),
                setProblem,
              )
            }
          >
            {w.loadMore}
          </button>
        </div>
      )}
    </>
  );
}

const JSON_MAX = 1 << 20;

function JsonView({ id, path, size }: { id: string; path: string; size: number }) {
  const whole = useLoad(
    size <= JSON_MAX
      ? async (s) => {
          const text = new TextDecoder().decode(await readBytes(id, path, 0, Math.max(1, size), s));
          try {
            return { ok: true as const, value: JSON.parse(text) as unknown };
          } catch {
            return { ok: false as const };
          }
        }
      : null,
    [id, path],
  );
  if (size > JSON_MAX || whole.value?.ok === false)
    return <TextView id={id} path={path} size={size} />;
  if (whole.problem) return <Trouble problem={whole.problem} />;
  if (!whole.value)
    return (
      <div class="body">
        <Skeleton />
      </div>
    );
  return (
    <div class="body json" tabIndex={0} role="group" aria-label="JSON">
      <Json v={(whole.value as { value: unknown }).value} depth={0} />
    </div>
  );
}

function Json({ v, depth, name }: { v: unknown; depth: number; name?: string }) {
  const label = name === undefined ? null : <span class="key">{name}: </span>;
  if (v === null || typeof v !== 'object')
    return (
      <div>
        {label}
        <span class={typeof v === 'string' ? 'str' : 'lit'}>{JSON.stringify(v)}</span>
      </div>
    );
  const entries = Object.entries(v as Record<string, unknown>);
  return (
    <details open={depth < 2 && entries.length <= 100}>
      <summary>
        {label}
        <span class="quiet">
          {Array.isArray(v) ? `[${count(entries.length)}]` : `{${count(entries.length)}}`}
        </span>
      </summary>
      <div class="inner">
        {entries.slice(0, 1000).map(([k, x]) => (
          <Json key={k} name={k} v={x} depth={depth + 1} />
        ))}
      </div>
    </details>
  );
}

const PAGE = 200;

function TableView({ id, path, otherwise }: { id: string; path: string; otherwise: () => void }) {
  const [, redraw] = useState(0);
  const [head, setHead] = useState<api.Table | null>(null);
  const pages = useMemo(() => new Map<number, unknown[][] | 'asked'>(), [id, path]);
  const read = (i: number) => {
    if (pages.has(i)) return;
    pages.set(i, 'asked');
    api
      .contentTable(id, {
        project: project.value,
        path: path || null,
        offset: i * PAGE,
        limit: PAGE,
      })
      .then(
        (t) => {
          pages.set(i, t.rows);
          if (i === 0) setHead(t);
          redraw((n) => n + 1);
        },
        () => {
          pages.delete(i);
          if (i === 0) otherwise();
        },
      );
  };
  useEffect(() => read(0), [id, path]);
  if (!head)
    return (
      <div class="body">
        <Skeleton />
      </div>
    );
  const loaded = [...pages.entries()].reduce(
    (n, [i, p]) => (p === 'asked' ? n : Math.max(n, i * PAGE + p.length)),
    0,
  );
  const total = head.total ?? (loaded % PAGE === 0 ? loaded + 1 : loaded);
  return (
    <>
      <p class="body quiet">{w.rows(head.total)}</p>
      <VTable<{ i: number; cells: unknown[] }>
        label={w.table}
        height="min(70vh, 640px)"
        rowHeight={26}
        columns={[
          {
            id: '#',
            title: '#',
            width: '64px',
            num: true,
            cell: (r) => <span class="quiet">{count(r.i)}</span>,
          },
          ...head.columns.slice(0, 200).map((c, k) => ({
            id: String(k),
            title: c.name,
            width: 'minmax(90px, 180px)',
            num: /int|float|number/.test(c.type),
            cell: (r: { i: number; cells: unknown[] }) => (
              <span title={String(r.cells[k] ?? '')}>{value(r.cells[k])}</span>
            ),
          })),
        ]}
        length={total}
        row={(i) => {
          const p = pages.get(Math.floor(i / PAGE));
          const cells = p && p !== 'asked' ? p[i % PAGE] : undefined;
          return cells ? { i, cells } : undefined;
        }}
        keyOf={(r) => String(r.i)}
        onRange={(from, to) => {
          for (let i = Math.floor(from / PAGE); i <= Math.floor(Math.max(from, to - 1) / PAGE); i++)
            if (i * PAGE < (head.total ?? Infinity)) read(i);
        }}
      />
    </>
  );
}

function ShardView({
  id,
  path,
  view,
  otherwise,
}: {
  id: string;
  path: string;
  view: string | null;
  otherwise: () => void;
}) {
  const [samples, setSamples] = useState<api.Samples['samples'] | null>(null);
  const [total, setTotal] = useState<number | null>(null);
  const read = (offset: number) =>
    api.contentShard(id, { project: project.value, path: path || null, offset, limit: 60 }).then(
      (a) => {
        setSamples((s) => [...(offset ? (s ?? []) : []), ...a.samples]);
        setTotal(a.total);
        if (offset === 0 && a.samples.length === 0) otherwise();
      },
      () => otherwise(),
    );
  useEffect(() => void read(0), [id, path]);
  void view;
  if (!samples)
    return (
      <div class="body">
        <Skeleton />
      </div>
    );
  return (
    <div class="body stack">
      <span class="quiet">{total !== null ? w.samples(total) : ''}</span>
      <ul class="gallery">
        {samples.map((s) => (
          <Sample key={s.key} id={id} path={path} s={s} />
        ))}
      </ul>
      {(total === null || samples.length < total) && (
        <div>
          <button type="button" class="btn" onClick={() => void read(samples.length)}>
            {words.more}
          </button>
        </div>
      )}
    </div>
  );
}

const IMAGE_MAX = 1 << 20;

/** One sample: its image as a blob of this page, made of a range of the shard. SVG stays text there. */
function Sample({ id, path, s }: { id: string; path: string; s: api.Samples['samples'][number] }) {
  const image = s.members.find(
    (m) => /(^|\.)(png|jpe?g|webp|gif|bmp)$/i.test(m.name) && m.size <= IMAGE_MAX,
  );
  const [src, setSrc] = useState<string | null>(null);
  useEffect(() => {
    if (!image) return;
    const stop = new AbortController();
    let made: string | null = null;
    const type = /png$/i.test(image.name)
      ? 'image/png'
      : /webp$/i.test(image.name)
        ? 'image/webp'
        : /gif$/i.test(image.name)
          ? 'image/gif'
          : /bmp$/i.test(image.name)
            ? 'image/bmp'
            : 'image/jpeg';
    readBytes(id, path, image.offset, image.size, stop.signal).then(
      (b) => {
        made = URL.createObjectURL(new Blob([b as BlobPart], { type }));
        setSrc(made);
      },
      () => undefined,
    );
    return () => {
      stop.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [id, path, s.key]);
  return (
    <li>
      <figure>
        {image ? (
          src ? (
            <img src={src} alt={s.key} loading="lazy" />
          ) : (
            <span class="skeleton thumb" />
          )
        ) : (
          <span class="thumb quiet">{s.members.map((m) => m.name.split('.').pop()).join(' ')}</span>
        )}
        <figcaption title={s.members.map((m) => `${m.name} ${bytes(m.size)}`).join('\n')}>
          <span class="ellipsis">{s.key}</span>
          {s.label !== null && <span class="tag">{String(s.label)}</span>}
        </figcaption>
      </figure>
    </li>
  );
}
