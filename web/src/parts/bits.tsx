// Small things that every page uses.

import type { ComponentChildren, JSX, VNode } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { count, duration, exact, moment, parseTime, relative, shortHash } from '../base/format';
import { now } from '../base/clock';
import { words } from '../base/words';
import { Icon, StateIcon, type IconName } from './icons';

export { StateIcon };
import { Problem } from '../api/request';

export const stateWord = (s: string) => words.states[s] ?? s;

export function State({ state, word }: { state: string; word?: string }) {
  return (
    <span class={`state tone-${state}`}>
      <StateIcon state={state} />
      <span>{word ?? stateWord(state)}</span>
    </span>
  );
}

/** Only the shape, with its word for readers and on hover. */
export function StateDot({ state }: { state: string }) {
  return (
    <span class={`state tone-${state}`} title={stateWord(state)}>
      <StateIcon state={state} />
      <span class="sr">{stateWord(state)}</span>
    </span>
  );
}

export function Pill({ state, word }: { state: string; word?: string }) {
  return (
    <span class={`pill tone-${state}`}>
      <StateIcon state={state} size={13} />
      {word ?? stateWord(state)}
    </span>
  );
}

/** A time in the reader's zone; exactly, with UTC, on hover and for readers. */
export function Time({
  at,
  how = 'relative',
}: {
  at: string | null | undefined;
  how?: 'relative' | 'moment';
}) {
  const d = parseTime(at);
  if (!d || !at) return <span class="quiet">{words.none}</span>;
  const text = how === 'relative' ? relative(d, now.value) : moment(d, now.value);
  return (
    <time dateTime={at} title={exact(d)} class="nowrap">
      {text}
    </time>
  );
}

/** How long; while it lasts, it counts on. */
export function Lasting({ ns, since }: { ns?: number | null; since?: string | null | undefined }) {
  if (since) {
    const d = parseTime(since);
    if (d)
      return (
        <span class="nowrap">{duration(Math.max(0, now.value.getTime() - d.getTime()) * 1e6)}</span>
      );
  }
  return <span class="nowrap">{duration(ns)}</span>;
}

/** How long a run should still take. It counts down by itself, and says when it was wrong. */
export function Left({ at, short }: { at: string | null | undefined; short?: boolean }) {
  const d = parseTime(at);
  if (!d) return null;
  const w = words.run;
  const s = Math.ceil((d.getTime() - now.value.getTime()) / 1000);
  const text = duration((s < 600 ? s : Math.round(s / 60) * 60) * 1e9);
  return (
    <time dateTime={at!} class="nowrap" title={w.leftSays(exact(d))}>
      {s <= 0 ? w.overdue : short ? w.leftShort(text) : w.left(text)}
    </time>
  );
}

export function Hash({
  id,
  href,
  digits,
}: {
  id: string | null | undefined;
  href?: string;
  digits?: number;
}) {
  if (!id) return <span class="quiet">{words.none}</span>;
  const text = shortHash(id, digits);
  return href ? (
    <a class="hash" href={href} title={id}>
      {text}
    </a>
  ) : (
    <span class="hash" title={id}>
      {text}
    </span>
  );
}

interface IconWord {
  icon: IconName;
  /** What readers hear, and what the pointer is told if there is no `title`. */
  label: string;
  kind?: string;
  size?: number;
}

/** A button that shows only an icon. */
export function IconButton({
  icon,
  label,
  kind = '',
  size = 14,
  ...rest
}: IconWord & Omit<JSX.IntrinsicElements['button'], 'label' | 'icon' | 'size'>) {
  return (
    <button type="button" title={label} {...rest} class={`btn icon ${kind}`} aria-label={label}>
      <Icon name={icon} size={size} />
    </button>
  );
}

/** The same as a link. */
export function IconLink({
  icon,
  label,
  kind = '',
  size = 14,
  ...rest
}: IconWord & Omit<JSX.IntrinsicElements['a'], 'label' | 'icon' | 'size'>) {
  return (
    <a title={label} {...rest} class={`btn icon ${kind}`} aria-label={label}>
      <Icon name={icon} size={size} />
    </a>
  );
}

export function Copy({ text, label = words.copy }: { text: string; label?: string }) {
  const [done, setDone] = useState(false);
  return (
    <IconButton
      icon={done ? 'check' : 'copy'}
      label={done ? words.copied : label}
      kind="bare small copy"
      onClick={() => {
        void copyText(text).then(() => {
          setDone(true);
          setTimeout(() => setDone(false), 1500);
        });
      }}
    />
  );
}

export async function copyText(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // No clipboard on an insecure origin: the old way.
    const t = document.createElement('textarea');
    t.value = text;
    document.body.append(t);
    t.select();
    document.execCommand('copy');
    t.remove();
  }
}

export function Skeleton({ lines = 5 }: { lines?: number }) {
  return (
    <div class="stack" aria-busy="true">
      <span class="sr">{words.loading}</span>
      {Array.from({ length: lines }, (_, i) => (
        <span key={i} class={`skeleton w${(i * 37) % 5}`} />
      ))}
    </div>
  );
}

export function Empty({
  title,
  hint,
  command,
  children,
  whole,
}: {
  title: string;
  hint?: string;
  command?: string;
  children?: ComponentChildren;
  /** It is all that the page shows. */
  whole?: boolean;
}) {
  const Heading = whole ? 'h1' : 'h2';
  return (
    <div class="empty">
      <Heading>{title}</Heading>
      {hint && <p>{hint}</p>}
      {command && (
        <div class="command">
          <code>{command}</code>
          <Copy text={command} />
        </div>
      )}
      {children}
    </div>
  );
}

/** What went wrong, in the server's words, and what to do. */
export function Trouble({ problem, again }: { problem: Problem; again?: () => void }) {
  const missing = problem.status === 404 && /nothing at this path/.test(problem.detail);
  return (
    <div class="callout tone-failed" role="alert">
      <h2>
        <StateIcon state="failed" /> {words.errors.title}
      </h2>
      <p>{missing ? words.errors.missing : problem.detail}</p>
      {again && (
        <div>
          <button type="button" class="btn" onClick={again}>
            {words.errors.retry}
          </button>
        </div>
      )}
    </div>
  );
}

export interface Counted {
  total?: number;
  executed: number;
  hits: number;
  failed: number;
  skipped: number;
  blocked: number;
  running?: number;
  waiting?: number;
  cancelled?: number;
}

const ORDER = [
  'failed',
  'executed',
  'hits',
  'running',
  'blocked',
  'skipped',
  'cancelled',
  'waiting',
] as const;
export const toneOf = (k: string) => (k === 'hits' ? 'hit' : k);

export function countsText(c: Counted): string {
  return ORDER.filter((k) => (c[k] ?? 0) > 0)
    .map((k) => `${count(c[k])} ${words.tasks[k] as string}`)
    .join(', ');
}

/** The states of many tasks as one bar; its words are in the title and for readers. */
export function TaskBar({ counts, width }: { counts: Counted; width?: number }) {
  const total = Math.max(1, counts.total ?? ORDER.reduce((n, k) => n + (counts[k] ?? 0), 0));
  const text = countsText(counts);
  return (
    <span
      class="taskbar"
      style={width ? { width: `${width}px` } : undefined}
      title={text}
      role="img"
      aria-label={text || words.none}
    >
      {ORDER.filter((k) => k !== 'waiting' && (counts[k] ?? 0) > 0).map((k) => (
        <i
          key={k}
          class={`tone-${toneOf(k)}`}
          style={{ width: `${((counts[k] ?? 0) / total) * 100}%` }}
        />
      ))}
    </span>
  );
}

/** A button that stays in reach while it can't be used, and says why. */
export function Action({
  icon,
  label,
  onClick,
  why,
  kind = '',
  disabled,
  busy,
}: {
  icon?: IconName;
  label: string;
  onClick?: () => void;
  why?: string | null;
  kind?: string;
  disabled?: boolean;
  busy?: boolean;
}) {
  const off = !!why || !!disabled || !!busy;
  return (
    <button
      type="button"
      class={`btn ${kind}`}
      aria-disabled={off ? 'true' : undefined}
      title={why ?? undefined}
      onClick={() => !off && onClick?.()}
    >
      {icon && <Icon name={icon} size={14} />}
      {label}
      {why && <span class="sr"> ({why})</span>}
    </button>
  );
}

export function Check({
  label,
  checked,
  onChange,
}: {
  label: string;
  checked: boolean;
  onChange: (on: boolean) => void;
}) {
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={checked}
        onChange={(e) => onChange(e.currentTarget.checked)}
      />
      {label}
    </label>
  );
}

export function Segmented<T extends string>({
  label,
  value,
  options,
  onChange,
}: {
  label: string;
  value: T;
  options: readonly (readonly [T, string])[];
  onChange: (v: T) => void;
}) {
  return (
    <div class="segmented" role="group" aria-label={label}>
      {options.map(([v, text]) => (
        <button
          key={v}
          type="button"
          class="btn"
          aria-pressed={v === value}
          onClick={() => onChange(v)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

/** A field whose value is told when the typing rests. */
export function SearchField({
  value,
  onChange,
  label,
  placeholder,
  id,
  children,
}: {
  value: string;
  onChange: (v: string) => void;
  label: string;
  placeholder?: string;
  id?: string;
  children?: ComponentChildren;
}) {
  const [text, setText] = useState(value);
  const timer = useRef(0);
  const sent = useRef(value);
  useEffect(() => {
    if (value !== sent.current) {
      setText(value);
      sent.current = value;
    }
  }, [value]);
  const send = (v: string) => {
    sent.current = v;
    onChange(v);
  };
  return (
    <div class="search" role="search">
      <Icon name="search" />
      <input
        id={id}
        class="field"
        type="search"
        aria-label={label}
        placeholder={placeholder ?? label}
        value={text}
        data-search
        onInput={(e) => {
          const v = e.currentTarget.value;
          setText(v);
          clearTimeout(timer.current);
          timer.current = window.setTimeout(() => send(v), 200);
        }}
        onKeyDown={(e) => {
          if (e.key === 'Enter') {
            clearTimeout(timer.current);
            send(text);
          }
        }}
      />
      {children}
    </div>
  );
}

export function Menu({
  label,
  icon,
  text,
  side = 'right',
  children,
}: {
  label: string;
  icon: IconName;
  text?: string;
  side?: 'left' | 'right';
  children: (close: () => void) => ComponentChildren;
}) {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (!open) return;
    const away = (e: Event) => {
      if (!root.current?.contains(e.target as Node)) setOpen(false);
    };
    document.addEventListener('pointerdown', away);
    document.addEventListener('focusin', away);
    return () => {
      document.removeEventListener('pointerdown', away);
      document.removeEventListener('focusin', away);
    };
  }, [open]);
  return (
    <div
      class={`menu ${side}`}
      ref={root}
      onKeyDown={(e) => {
        if (e.key === 'Escape' && open) {
          e.stopPropagation();
          e.preventDefault();
          setOpen(false);
          button.current?.focus();
        }
      }}
    >
      <button
        type="button"
        ref={button}
        class={`btn ${text ? '' : 'icon'}`}
        aria-expanded={open}
        aria-label={text ? undefined : label}
        title={label}
        onClick={() => setOpen(!open)}
      >
        <Icon name={icon} size={14} />
        {text}
      </button>
      {open && (
        <div class="pop" role="group" aria-label={label}>
          {children(() => setOpen(false))}
        </div>
      )}
    </div>
  );
}

export function Dialog({
  title,
  onClose,
  children,
  wide,
}: {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  wide?: boolean;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const d = ref.current;
    if (d && !d.open) d.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog
      ref={ref}
      class={wide ? 'wide' : undefined}
      aria-label={title}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClick={(e) => {
        if (e.target === ref.current) onClose();
      }}
    >
      <div class="inner">
        <div class="row apart">
          <h2>{title}</h2>
          <IconButton icon="close" label={words.close} kind="bare small" onClick={onClose} />
        </div>
        {children}
      </div>
    </dialog>
  );
}

export function Card({
  title,
  aside,
  children,
  flush,
}: {
  title: ComponentChildren;
  aside?: ComponentChildren;
  children: ComponentChildren;
  flush?: boolean;
}): VNode {
  return (
    <section class="card">
      <header>
        <h2>{title}</h2>
        {aside}
      </header>
      {flush ? children : <div class="body">{children}</div>}
    </section>
  );
}
