// Where content came from and what was made of it, across runs: a folded graph, a list that says the
// same, and the facts of what is selected.

import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import type { Lineage } from '../api';
import { bytes, shortHash, value } from '../base/format';
import { useLoad } from '../base/load';
import { project, projectQuery } from '../base/project';
import { go, part, place, setQuery, url } from '../base/route';
import { colours } from '../base/theme';
import { words } from '../base/words';
import type { GraphCanvas } from '../graph/canvas';
import { mountGraph } from '../graph/gestures';
import { sceneOf } from '../graph/scene';
import { ZoomButtons } from '../graph/zoom';
import { Copy, Empty, Hash, Segmented, Skeleton, StateIcon, Time, Trouble } from '../parts/bits';
import { Icon } from '../parts/icons';
import { foldLineage, type LinNode } from './lineagefold';

const w = words.lineage;
const KINDS = ['content', 'file', 'output', 'task', 'metric', 'input'] as const;
type Kind = (typeof KINDS)[number];

export default function LineagePage({ params }: { params: Record<string, string> }) {
  const p = project.value;
  const q = place.value.query;
  const kind: Kind = params.content ? 'content' : (KINDS.find((k) => q.get(k)) ?? 'content');
  const what = params.content ?? q.get(kind) ?? '';
  const direction = q.get('direction') === 'down' ? 'down' : 'up';
  const depth = q.get('depth');
  const run = q.get('run') ?? 'last';
  const begin: Record<string, string> =
    kind === 'content'
      ? { content: what }
      : kind === 'output'
        ? { task: what.split('/').slice(0, -1).join('/'), output: what.split('/').pop() ?? '', run }
        : kind === 'file'
          ? { file: what, ...(q.get('run') ? { run } : {}) }
          : { [kind]: what, run, ...(q.get('of') ? { task: q.get('of') ?? '' } : {}) };
  const data = useLoad(
    p && what
      ? (s) =>
          api.lineage(
            {
              project: p,
              ...begin,
              direction,
              limit: 1000,
              ...(depth ? { depth } : {}),
            } as Parameters<typeof api.lineage>[0],
            s,
          )
      : null,
    [p, what, kind, run, q.get('of'), direction, depth],
    true,
  );
  return (
    <>
      <div class="pagehead">
        <h1>{w.title}</h1>
        <Begin kind={kind} what={what} run={q.get('run') ?? ''} />
        <span class="grow" />
        {what && (
          <>
            <Segmented
              label={w.direction}
              value={direction}
              options={
                [
                  ['up', w.up],
                  ['down', w.down],
                ] as const
              }
              onChange={(v) => setQuery({ direction: v === 'down' ? 'down' : null })}
            />
            <label class="check">
              {w.depth}
              <select
                class="field"
                value={depth ?? ''}
                onChange={(e) => setQuery({ depth: e.currentTarget.value })}
              >
                <option value="">{words.all}</option>
                {[1, 2, 3, 5, 8].map((n) => (
                  <option key={n}>{n}</option>
                ))}
              </select>
            </label>
          </>
        )}
      </div>
      {!what && <Empty title={w.empty} hint={w.emptyHint} command={w.emptyCommand} />}
      {data.problem && <Trouble problem={data.problem} again={data.again} />}
      {what && data.first && <Skeleton lines={8} />}
      {what &&
        data.value &&
        !data.problem &&
        (data.value.nodes.length === 0 ? (
          <Empty title={w.nothing} />
        ) : (
          <LineageView l={data.value} />
        ))}
    </>
  );
}

function Begin({ kind, what, run }: { kind: Kind; what: string; run: string }) {
  const [k, setK] = useState<Kind>(kind);
  const [text, setText] = useState(what);
  const [of, setOf] = useState(run);
  useEffect(() => {
    setK(kind);
    setText(what);
    setOf(run);
  }, [kind, what, run]);
  return (
    <form
      class="row tight"
      onSubmit={(e) => {
        e.preventDefault();
        const t = text.trim();
        const keep = {
          project: projectQuery.value,
          direction: place.value.query.get('direction'),
          depth: place.value.query.get('depth'),
        };
        if (t)
          go(
            k === 'content'
              ? url(`/lineage/${part(t)}`, keep)
              : url('/lineage', { [k]: t, run: of.trim() || null, ...keep }),
          );
      }}
    >
      <select
        class="field"
        aria-label={w.begin}
        value={k}
        onChange={(e) => setK(e.currentTarget.value as Kind)}
      >
        {KINDS.map((x) => (
          <option key={x} value={x}>
            {w.kinds[x]}
          </option>
        ))}
      </select>
      <input
        class="field w260 mono"
        data-search
        aria-label={w.begin}
        placeholder={w.beginHint[k]}
        value={text}
        onInput={(e) => setText(e.currentTarget.value)}
      />
      {k !== 'content' && (
        <label class="check">
          {w.ofRun}
          <input
            class="field w140 mono"
            placeholder={k === 'file' ? w.ofRunAny : w.ofRunHint}
            value={of}
            onInput={(e) => setOf(e.currentTarget.value)}
          />
        </label>
      )}
      <button type="submit" class="btn">
        <Icon name="lineage" size={14} /> {w.begin}
      </button>
    </form>
  );
}

const markOf = (n: LinNode) =>
  n.kind === 'attempt' ? 'task' : n.content === 'tree' ? 'tree' : 'file';

function LineageView({ l }: { l: Lineage }) {
  const q = place.value.query;
  const open = useMemo(
    () => new Set((q.get('open') ?? '').split('|').filter(Boolean)),
    [q.get('open')],
  );
  const folded = useMemo(() => foldLineage(l, (id) => open.has(id)), [l, open]);
  const [selected, setSelected] = useState<string | null>(l.artifact);
  const host = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const view = useRef<GraphCanvas | null>(null);
  const state = useRef({ folded, open });
  state.current = { folded, open };
  const toggle = (id: string) => {
    const next = new Set(state.current.open);
    if (!next.delete(id)) next.add(id);
    setQuery({ open: [...next].join('|') });
  };
  useEffect(() => {
    if (!host.current || !canvas.current) return;
    const [v, out] = mountGraph(
      host.current,
      canvas.current,
      {
        facts: (b) => {
          const list = state.current.folded.members.get(b.node.id) ?? [];
          const n = list[0];
          const size = list.reduce((s, x) => s + (x.size ?? 0), 0);
          return {
            state: n ? markOf(n) : 'file',
            note:
              list.length > 1
                ? w.folded(list.length)
                : n?.kind === 'attempt'
                  ? (n.run ?? n.pipeline ?? '')
                  : bytes(size),
            parts: [],
            total: 0,
          };
        },
        cells: () => [],
      },
      {
        click: (hit) => {
          if (hit?.box.node.kind === 'alike') toggle(hit.box.node.id);
          else if (hit) setSelected(hit.box.node.id);
        },
      },
    );
    view.current = v;
    return out;
  }, []);
  useEffect(() => {
    let live = true;
    const r = host.current!.getBoundingClientRect();
    void sceneOf(folded, Math.max(320, r.width), Math.max(240, r.height), false).then(
      (s) => live && view.current?.show(s),
    );
    return () => {
      live = false;
    };
  }, [folded]);
  useEffect(() => {
    if (!view.current) return;
    view.current.selected = selected;
    view.current.request();
  }, [selected, colours.value]);
  const node = selected ? (folded.members.get(selected)?.[0] ?? null) : null;
  return (
    <>
      {l.truncated && <p class="second">{w.truncated}</p>}
      <div class="lineage">
        <div class="card graphpane">
          <ul class="outline" aria-label={w.list}>
            {folded.nodes.map((n) => {
              const first = folded.members.get(n.id)![0]!;
              return (
                <li key={n.id}>
                  <button
                    type="button"
                    class="plainline"
                    aria-pressed={selected === n.id}
                    onClick={() =>
                      n.kind === 'alike'
                        ? toggle(n.id)
                        : (setSelected(n.id), view.current?.reveal(n.id))
                    }
                  >
                    <StateIcon state={markOf(first)} size={13} />
                    <span class="ellipsis">{n.label}</span>
                    <span class="quiet note">
                      {n.tasks > 1
                        ? w.folded(n.tasks)
                        : first.kind === 'artifact'
                          ? bytes(first.size)
                          : (first.run ?? '')}
                    </span>
                  </button>
                </li>
              );
            })}
          </ul>
          <div
            class="graphhost"
            ref={host}
            tabIndex={0}
            role="group"
            aria-label={w.label(l.nodes.length)}
          >
            <canvas ref={canvas} aria-hidden="true" />
            <div class="tools row tight">
              {open.size > 0 && (
                <button type="button" class="btn" onClick={() => setQuery({ open: null })}>
                  {words.run.foldAll}
                </button>
              )}
              <ZoomButtons view={view} />
            </div>
          </div>
        </div>
        {node && <Details n={node} />}
      </div>
    </>
  );
}

function Details({ n }: { n: LinNode }) {
  const q = { project: projectQuery.value };
  return (
    <section class="card details" aria-label={w.details}>
      <header>
        <h2>{n.kind === 'attempt' ? w.attempt : w.artifact}</h2>
      </header>
      <div class="body stack">
        <dl class="facts">
          {n.kind === 'artifact' ? (
            <>
              <dt>{words.artifact.content}</dt>
              <dd class="row tight copyable">
                <Hash
                  id={n.id}
                  href={url(`/artifacts/${part(n.id)}`, { ...q, name: n.name ?? null })}
                />{' '}
                <Copy text={n.id} />
              </dd>
              <dt>{words.artifact.size}</dt>
              <dd>{bytes(n.size)}</dd>
              {n.origin && (
                <>
                  <dt>{w.origin}</dt>
                  <dd>{n.origin.uri ?? n.origin.input ?? words.none}</dd>
                </>
              )}
            </>
          ) : (
            <>
              <dt>{w.attempt}</dt>
              <dd>
                {n.run ? (
                  <a href={url(`/runs/${part(n.run)}/tasks/${part(n.task ?? '')}`, q)}>{n.task}</a>
                ) : (
                  n.task
                )}
              </dd>
              <dt>{words.runs.cols.run}</dt>
              <dd>
                {n.run ? (
                  <a class="hash" href={url(`/runs/${part(n.run)}`, q)}>
                    {n.run}
                  </a>
                ) : (
                  words.none
                )}
              </dd>
              <dt>{words.runs.pipeline}</dt>
              <dd>{n.pipeline}</dd>
              <dt>{words.run.facts.started}</dt>
              <dd>
                <Time at={n.started} />
              </dd>
              <dt>{words.task.key}</dt>
              <dd class="hash">{shortHash(n.key)}</dd>
              <dt>{words.run.facts.commit}</dt>
              <dd class="hash">
                {n.git_commit?.slice(0, 8) ?? words.none}
                {n.git_dirty ? '*' : ''}
              </dd>
              {Object.entries(n.params ?? {}).map(([k, v]) => (
                <>
                  <dt class="mono">{k}</dt>
                  <dd class="mono">{value(v)}</dd>
                </>
              ))}
            </>
          )}
        </dl>
        {n.kind === 'artifact' && (
          <div class="row">
            <a
              class="btn"
              href={url(`/lineage/${part(n.id)}`, {
                ...q,
                direction: place.value.query.get('direction'),
              })}
            >
              {w.from}
            </a>
            <a class="btn" href={url(`/lineage/${part(n.id)}`, { ...q, direction: 'down' })}>
              {w.down}
            </a>
          </div>
        )}
      </div>
    </section>
  );
}
