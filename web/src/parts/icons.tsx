// Line icons of our own, 16 units square. Decoration: the word stands beside each, or in its button's label.

import type { JSX } from 'preact';

const paths = {
  home: 'M2.5 7.2 8 2.5l5.5 4.7M4 6.5v7h8v-7',
  runs: 'M2.5 4h2M2.5 8h2M2.5 12h2M7 4h6.5M7 8h6.5M7 12h6.5',
  play: 'M5 3.2v9.6l8-4.8z',
  calendar: 'M2.5 4h11v9.5h-11zM2.5 7h11M5.5 2.2V5M10.5 2.2V5',
  compare: 'M5 2.5v11M11 2.5v11M2 5l3-2.5L8 5M8 11l3 2.5 3-2.5',
  lineage:
    'M3.5 5.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM3.5 14.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM12.5 10a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM5.4 4.2l5.2 2.9M5.4 11.8l5.2-2.9',
  store:
    'M8 6c3 0 5.5-.9 5.5-2S11 2 8 2s-5.5.9-5.5 2S5 6 8 6zM2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2',
  search: 'M7 12A5 5 0 1 0 7 2a5 5 0 0 0 0 10zM10.6 10.6 14 14',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  menu: 'M2.5 4h11M2.5 8h11M2.5 12h11',
  copy: 'M5.5 5.5h8v8h-8zM10.5 5.5v-3h-8v8h3',
  check: 'M3 8.5l3.2 3L13 4.5',
  down: 'M4 6l4 4 4-4',
  right: 'M6 4l4 4-4 4',
  left: 'M10 4L6 8l4 4',
  up: 'M4 10l4-4 4 4',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  fit: 'M2.5 6v-3.5H6M10 2.5h3.5V6M13.5 10v3.5H10M6 13.5H2.5V10',
  download: 'M8 2.5v8M4.5 7.5 8 11l3.5-3.5M2.5 13.5h11',
  theme: 'M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12',
  keyboard: 'M1.5 4h13v8.5h-13zM4 6.8h.01M6.7 6.8h.01M9.3 6.8h.01M12 6.8h.01M5 10h6',
  columns: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  filter: 'M2 3.5h12M4.5 8h7M6.5 12.5h3',
  stop: 'M4 4h8v8H4z',
  again: 'M13 8a5 5 0 1 1-1.5-3.5M13 2v3h-3',
  pause: 'M5 3v10M11 3v10',
  file: 'M4 2h5l3.5 3.5V14H4zM9 2v3.5h3.5',
  folder: 'M1.5 4h4.5l1.5 2h7v7.5h-13z',
  link: 'M6.5 9.5l3-3M7 4.5l1.5-1.5a2.8 2.8 0 0 1 4 4L11 8.5M9 11.5 7.5 13a2.8 2.8 0 0 1-4-4L5 7.5',
  proof: 'M8 1.8l5 1.7v4c0 3-2 5.2-5 6.7-3-1.5-5-3.7-5-6.7v-4zM5.7 8l1.7 1.7 3-3.2',
  out: 'M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6',
  hand: 'M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13zM8 4.5v4M8 11v.2',
  wrap: 'M2 4h12M2 8h9.5a2 2 0 0 1 0 4H8M9.8 10 8 12l1.8 2M2 12h3',
  list: 'M2.5 3.5h11M5 8h8.5M7.5 12.5h6M2.5 3.5v9M2.5 8H5M2.5 12.5h5',
  log: 'M2.5 3h11M2.5 6.3h8M2.5 9.7h11M2.5 13h6',
  clock: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.5',
  shield: 'M8 1.8l5 1.7v4c0 3-2 5.2-5 6.7-3-1.5-5-3.7-5-6.7v-4z',
} as const;

export type IconName = keyof typeof paths;

export function Icon({
  name,
  size = 16,
  ...rest
}: { name: IconName; size?: number } & Omit<JSX.SVGAttributes<SVGSVGElement>, 'name' | 'size'>) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.4"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
      focusable="false"
      {...rest}
    >
      <path d={paths[name]} />
    </svg>
  );
}

// One shape a state, so that colour is never the only sign. Drawn here for the page, and by the same
// paths on canvases (Path2D).
export const shapes: Record<string, { fill?: string; stroke?: string }> = {
  executed: {
    fill: 'M8 1a7 7 0 1 0 0 14A7 7 0 0 0 8 1zm3.7 5.3-4.2 4.6a.8.8 0 0 1-1.170.02L4.4 9a.8.8 0 1 1 1.15-1.1l1.33 1.37 3.64-3.99a.8.8 0 0 1 1.18 1.08z',
  },
  hit: {
    fill: 'M8.900.9 2.7 8.7c-.3.4 0 1 .5 1h3.6l-.8 5c-.1.6.6.9 1 .5l6.3-7.8c.3-.4 0-1-.5-1H9.2l.7-5c.1-.6-.6-.9-1-.5z',
  },
  failed: {
    fill: 'M5.1 1h5.8L15 5.1v5.8L10.9 15H5.1L1 10.9V5.1zm.9 4.1a.8.8 0 0 0-.6 1.4L6.9 8 5.4 9.5a.8.8 0 1 0 1.1 1.1L8 9.1l1.5 1.5a.8.8 0 0 0 1.1-1.1L9.1 8l1.5-1.5a.8.8 0 1 0-1.1-1.1L8 6.9 6.5 5.4a.8.8 0 0 0-.5-.3z',
  },
  running: { stroke: 'M8 2a6 6 0 1 1-6 6' },
  waiting: {
    stroke:
      'M8 2.2a5.8 5.8 0 0 1 2.200.4M12.8 4.8a5.8 5.8 0 0 1 .8 2.1M13.5 9.8a5.8 5.8 0 0 1-1.2 1.9M10 13.45a5.8 5.8 0 0 1-2.200.35M5.6 13.3a5.8 5.8 0 0 1-1.8-1.3M2.5 9.8a5.8 5.8 0 0 1-.2-2.2M2.9 5.3a5.8 5.8 0 0 1 1.4-1.7',
  },
  skipped: { stroke: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM3.9 12.1l8.2-8.2' },
  blocked: { stroke: 'M3 3h10v10H3zM5.5 8h5' },
  cancelled: { stroke: 'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM6 6h4v4H6z' },
  died: { stroke: 'M8 1.8 14.5 13.5h-13zM8 6.2v3.5M8 11.6v.1' },
  approval: {
    stroke:
      'M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM6.3 6.3c0-2.2 3.4-2.2 3.4 0C9.7 7.6 8 7.6 8 9M8 11.2v.1',
  },
  planned: { stroke: 'M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM8 4.8V8l2.2 1.5' },
  paused: { stroke: 'M5.5 3v10M10.5 3v10' },
};
shapes.file = { stroke: paths.file };
shapes.tree = { stroke: paths.folder };
shapes.task = { stroke: paths.play };
shapes.succeeded = shapes.executed!;
shapes.interrupted = shapes.cancelled!;
shapes.lost = shapes.died!;
shapes.missed = shapes.died!;
shapes.unknown = shapes.waiting!;

export function StateIcon({ state, size = 14 }: { state: string; size?: number }) {
  const s = shapes[state] ?? shapes.unknown!;
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      aria-hidden="true"
      focusable="false"
      class={state === 'running' ? 'spin' : undefined}
    >
      {s.fill && <path d={s.fill} fill="currentColor" fill-rule="evenodd" />}
      {s.stroke && (
        <path
          d={s.stroke}
          fill="none"
          stroke="currentColor"
          stroke-width="1.7"
          stroke-linecap="round"
          stroke-linejoin="round"
        />
      )}
    </svg>
  );
}
