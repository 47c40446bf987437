// Ctrl K: to a page, or to a run by its id, tag or pipeline.

import { useEffect, useRef, useState } from 'preact/hooks';
import * as api from '../api';
import type { Run } from '../api';
import { project } from '../base/project';
import { go, part, place, url } from '../base/route';
import { words } from '../base/words';
import { StateDot, Time } from './bits';
import { Icon, type IconName } from './icons';

interface Item {
  key: string;
  href: string;
  show: preact.VNode;
}

export function Palette({
  nav,
  onClose,
}: {
  nav: [string, string, string, IconName][];
  onClose: () => void;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  const [text, setText] = useState('');
  const [runs, setRuns] = useState<Run[]>([]);
  const [at, setAt] = useState(0);
  const p = place.value.query.get('project');
  useEffect(() => {
    if (ref.current && !ref.current.open) ref.current.showModal();
  }, []);
  useEffect(() => {
    const stop = new AbortController();
    const timer = setTimeout(() => {
      api
        .runs(
          {
            project: project.value ?? '',
            limit: 8,
            ...(text.trim() ? { q: text.trim() } : {}),
          } as Parameters<typeof api.runs>[0],
          stop.signal,
        )
        .then(
          (r) => setRuns(r.runs),
          () => setRuns([]),
        );
    }, 120);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  const items: Item[] = [
    ...nav
      .filter(([, , word]) => word.toLowerCase().includes(text.trim().toLowerCase()))
      .map(([id, href, word, icon]) => ({
        key: id,
        href: url(href, { project: p }),
        show: (
          <>
            <Icon name={icon} /> {word}
          </>
        ),
      })),
    ...runs.map((r) => ({
      key: r.id,
      href: url(`/runs/${part(r.id)}`, { project: p }),
      show: (
        <>
          <StateDot state={r.state} />
          <span class="ellipsis">
            {r.pipeline} <span class="hash">{r.id}</span>
          </span>
          <span class="quiet nowrap">
            <Time at={r.started} />
          </span>
        </>
      ),
    })),
  ];
  const chosen = Math.min(at, items.length - 1);
  return (
    <dialog
      class="palette"
      ref={ref}
      aria-label={words.nav.find}
      onCancel={(e) => (e.preventDefault(), onClose())}
      onClick={(e) => e.target === ref.current && onClose()}
    >
      <input
        type="text"
        role="combobox"
        aria-expanded="true"
        aria-controls="palette-list"
        aria-activedescendant={items[chosen] ? `palette-${chosen}` : undefined}
        aria-label={words.palette.placeholder}
        placeholder={words.palette.placeholder}
        value={text}
        autofocus
        onInput={(e) => {
          setText(e.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(e) => {
          if (e.key === 'ArrowDown') setAt(Math.min(items.length - 1, chosen + 1));
          else if (e.key === 'ArrowUp') setAt(Math.max(0, chosen - 1));
          else if (e.key === 'Enter' && items[chosen]) {
            go(items[chosen].href);
            onClose();
          } else return;
          e.preventDefault();
        }}
      />
      <ul role="listbox" id="palette-list" aria-label={words.nav.find}>
        {items.map((i, n) => (
          <li
            key={i.key}
            id={`palette-${n}`}
            role="option"
            aria-selected={n === chosen}
            onPointerMove={() => setAt(n)}
            onClick={() => {
              go(i.href);
              onClose();
            }}
          >
            {i.show}
          </li>
        ))}
        {items.length === 0 && (
          <li role="option" aria-selected="false" aria-disabled="true">
            {words.palette.empty}
          </li>
        )}
      </ul>
    </dialog>
  );
}
