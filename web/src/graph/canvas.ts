// Draws a scene: boxes, wires, states. Only what is in view is drawn, and less of it from afar: text
// goes below half size, then shapes. Drawing asks for states when it needs them, so a change of state
// is one repaint and nothing is laid out again.
//
// Threads: the page's. At most one repaint a frame.

import { colour } from '../base/theme';
import { shapes } from '../parts/icons';
import { CELL, CELL_GAP, HEAD_H, PAD, ROW_H, ROWS_MAX } from './fold';
import type { Box, Scene, Wire } from './scene';

export interface BoxFacts {
  state: string;
  /** Right of the name: a duration, "3 of 12". */
  note: string;
  /** Shares of states, for the bar: state → number of tasks. */
  parts: [string, number][];
  total: number;
}

export interface CellFacts {
  task: string;
  label: string;
  state: string;
}

export interface Source {
  facts: (b: Box) => BoxFacts;
  cells: (step: string) => CellFacts[];
}

export interface Hit {
  box: Box;
  task?: string;
  /** The sign that opens and folds was hit. */
  fold?: boolean;
}

const paths = new Map<string, { fill?: Path2D; stroke?: Path2D }>();
function shape(state: string) {
  let p = paths.get(state);
  if (!p) {
    const s = shapes[state] ?? shapes.waiting!;
    p = {};
    if (s.fill) p.fill = new Path2D(s.fill);
    if (s.stroke) p.stroke = new Path2D(s.stroke);
    paths.set(state, p);
  }
  return p;
}

export const tone = (state: string) =>
  colour(
    `--s-${{ succeeded: 'executed', died: 'failed', lost: 'failed', interrupted: 'cancelled', unknown: 'waiting', approval: 'attention', hits: 'hit' }[state] ?? state}`,
  ) || colour('--s-waiting');

export class GraphCanvas {
  private ctx: CanvasRenderingContext2D;
  private scene: Scene = { down: false, width: 0, height: 0, boxes: [], wires: [] };
  private scale = 1;
  private x = 0;
  private y = 0;
  private w = 0;
  private h = 0;
  private asked = 0;
  private touched = false;
  selected: string | null = null;
  selectedTask: string | null = null;
  hovered: string | null = null;
  critical = false;
  onView: (() => void) | null = null;

  constructor(
    private canvas: HTMLCanvasElement,
    private source: Source,
  ) {
    this.ctx = canvas.getContext('2d')!;
  }

  resize(): void {
    const r = this.canvas.getBoundingClientRect();
    const d = devicePixelRatio || 1;
    if (r.width === 0) return;
    const first = this.w === 0;
    this.w = r.width;
    this.h = r.height;
    this.canvas.width = Math.round(r.width * d);
    this.canvas.height = Math.round(r.height * d);
    if (first || !this.touched) this.fit(false);
    this.paint();
  }

  show(scene: Scene, keepBox?: string): void {
    const before = keepBox ? this.scene.boxes.find((b) => b.node.id === keepBox) : undefined;
    const after = keepBox ? scene.boxes.find((b) => b.node.id === keepBox) : undefined;
    this.scene = scene;
    // What was opened stays under the pointer.
    if (before && after && this.touched) {
      this.x += (before.x - after.x) * this.scale;
      this.y += (before.y - after.y) * this.scale;
    } else if (!this.touched) this.fit(false);
    this.request();
  }

  fit(user = true): void {
    if (user) this.touched = false;
    const m = 24;
    const s = Math.min(
      (this.w - 2 * m) / Math.max(1, this.scene.width),
      (this.h - 2 * m) / Math.max(1, this.scene.height),
      1,
    );
    // By itself the view stays readable and shows the beginning; asked for, it shows all.
    this.scale = Math.max(user ? 0.02 : 0.75, s);
    const w = this.scene.width * this.scale;
    const h = this.scene.height * this.scale;
    this.x = w > this.w - 2 * m && !this.scene.down ? m : (this.w - w) / 2;
    this.y =
      h > this.h - 2 * m
        ? this.scene.down
          ? 56
          : (this.h - h) / 2
        : Math.max(m, Math.min((this.h - h) / 2, 96));
    this.request();
  }

  zoom(factor: number, cx = this.w / 2, cy = this.h / 2): void {
    const to = Math.max(0.02, Math.min(3, this.scale * factor));
    const f = to / this.scale;
    this.x = cx - (cx - this.x) * f;
    this.y = cy - (cy - this.y) * f;
    this.scale = to;
    this.touched = true;
    this.request();
  }

  pan(dx: number, dy: number): void {
    this.x += dx;
    this.y += dy;
    this.touched = true;
    this.request();
  }

  /** Brings a box into view, without moving when it is there. */
  reveal(id: string): void {
    const b = this.scene.boxes.find((k) => k.node.id === id || k.node.steps.includes(id));
    if (!b) return;
    const left = b.x * this.scale + this.x;
    const top = b.y * this.scale + this.y;
    const w = b.w * this.scale;
    const h = Math.min(b.h * this.scale, this.h);
    let dx = 0;
    let dy = 0;
    if (left < 16) dx = 16 - left;
    else if (left + w > this.w - 16) dx = this.w - 16 - left - w;
    if (top < 16) dy = 16 - top;
    else if (top + h > this.h - 16) dy = this.h - 16 - top - h;
    if (dx || dy) this.pan(dx, dy);
    else this.request();
  }

  at(px: number, py: number): Hit | null {
    const x = (px - this.x) / this.scale;
    const y = (py - this.y) / this.scale;
    let found: Box | null = null;
    for (const b of this.scene.boxes)
      if (
        x >= b.x &&
        x <= b.x + b.w &&
        y >= b.y &&
        y <= b.y + b.h &&
        (!found || b.depth > found.depth)
      )
        found = b;
    if (!found) return null;
    const b = found;
    const n = b.node;
    if (n.canOpen && y < b.y + HEAD_H + 12 && x > b.x + b.w - 26) return { box: b, fold: true };
    if (n.open && n.kind === 'step') {
      const i = this.cellAt(b, x - b.x, y - b.y);
      const cell = i === null ? undefined : this.source.cells(n.id)[i];
      if (cell) return { box: b, task: cell.task };
    }
    return { box: b };
  }

  private cellAt(b: Box, x: number, y: number): number | null {
    const { tasks, columns } = b.node;
    y -= HEAD_H;
    if (y < 0) return null;
    if (tasks <= ROWS_MAX) {
      const rows = Math.ceil(tasks / columns);
      const i = Math.floor(y / ROW_H) + Math.floor(x / (b.w / columns)) * rows;
      return i < tasks ? i : null;
    }
    const pitch = CELL + CELL_GAP;
    const c = Math.floor((x - PAD) / pitch);
    if (c < 0 || c >= columns) return null;
    const i = Math.floor(y / pitch) * columns + c;
    return i < tasks ? i : null;
  }

  request(): void {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.paint();
      this.onView?.();
    });
  }

  get down(): boolean | undefined {
    return this.scene.boxes.length ? this.scene.down : undefined;
  }

  stop(): void {
    cancelAnimationFrame(this.asked);
  }

  get zoomed(): number {
    return this.scale;
  }

  private paint(): void {
    const { ctx } = this;
    const d = devicePixelRatio || 1;
    ctx.setTransform(d, 0, 0, d, 0, 0);
    ctx.clearRect(0, 0, this.w, this.h);
    ctx.setTransform(d * this.scale, 0, 0, d * this.scale, d * this.x, d * this.y);
    const view = {
      x0: -this.x / this.scale,
      y0: -this.y / this.scale,
      x1: (this.w - this.x) / this.scale,
      y1: (this.h - this.y) / this.scale,
    };
    const seen = (x: number, y: number, w: number, h: number) =>
      x < view.x1 && x + w > view.x0 && y < view.y1 && y + h > view.y0;
    // Open groups lie under everything inside them.
    for (const b of this.scene.boxes)
      if (b.node.inside && seen(b.x, b.y, b.w, b.h)) this.paintGround(b);
    this.paintWires(seen);
    for (const b of this.scene.boxes) if (seen(b.x, b.y, b.w, b.h)) this.paintBox(b);
  }

  private paintWires(seen: (x: number, y: number, w: number, h: number) => boolean): void {
    const { ctx } = this;
    const focus = this.hovered ?? this.selected;
    const strong: Wire[] = [];
    ctx.lineWidth = Math.max(1.2, 0.7 / this.scale);
    ctx.strokeStyle = colour('--line-strong');
    ctx.beginPath();
    for (const w of this.scene.wires) {
      const p = w.points;
      if (
        p.length === 4 &&
        !seen(
          Math.min(p[0]!, p[2]!) - 1,
          Math.min(p[1]!, p[3]!) - 1,
          Math.abs(p[2]! - p[0]!) + 2,
          Math.abs(p[3]! - p[1]!) + 2,
        )
      )
        continue;
      if (this.isFocused(w, focus) || (this.critical && w.edge.critical)) strong.push(w);
      else this.trace(p);
    }
    ctx.stroke();
    for (const w of strong) {
      ctx.strokeStyle = this.isFocused(w, focus) ? colour('--accent') : colour('--s-attention');
      ctx.lineWidth = Math.max(2, 1.2 / this.scale);
      ctx.beginPath();
      this.trace(w.points);
      ctx.stroke();
    }
  }

  private isFocused(w: Wire, focus: string | null): boolean {
    return focus !== null && (w.edge.from === focus || w.edge.to === focus);
  }

  private trace(p: number[]): void {
    const { ctx } = this;
    ctx.moveTo(p[0]!, p[1]!);
    for (let i = 2; i < p.length; i += 2) {
      const x0 = p[i - 2]!;
      const y0 = p[i - 1]!;
      const x1 = p[i]!;
      const y1 = p[i + 1]!;
      if (Math.abs(y1 - y0) < 0.5 || Math.abs(x1 - x0) < 0.5) ctx.lineTo(x1, y1);
      else if (this.scene.down) {
        const m = Math.max(14, (y1 - y0) / 2);
        ctx.bezierCurveTo(x0, y0 + m, x1, y1 - m, x1, y1);
      } else {
        const m = Math.max(20, (x1 - x0) / 2);
        ctx.bezierCurveTo(x0 + m, y0, x1 - m, y1, x1, y1);
      }
    }
  }

  private paintGround(b: Box): void {
    const { ctx } = this;
    ctx.fillStyle = colour('--sunken');
    ctx.strokeStyle = b.node.id === this.selected ? colour('--focus') : colour('--line');
    ctx.lineWidth = b.node.id === this.selected ? 2 : 1;
    ctx.beginPath();
    ctx.roundRect(b.x, b.y, b.w, b.h, 10);
    ctx.fill();
    ctx.stroke();
  }

  private paintBox(b: Box): void {
    const { ctx } = this;
    const n = b.node;
    const facts = this.source.facts(b);
    const ink = tone(facts.state);
    const isSelected =
      n.id === this.selected ||
      (this.selected !== null && n.kind === 'alike' && n.steps.includes(this.selected));
    if (!n.inside) {
      if (n.kind === 'alike' || (n.tasks > 1 && !n.open)) {
        // A second sheet behind says that there are many.
        ctx.fillStyle = colour('--panel');
        ctx.strokeStyle = colour('--line-strong');
        ctx.lineWidth = 1;
        ctx.beginPath();
        ctx.roundRect(b.x + 4, b.y + 4, b.w, b.h, 7);
        ctx.fill();
        ctx.stroke();
      }
      ctx.fillStyle = colour('--panel');
      ctx.beginPath();
      ctx.roundRect(b.x, b.y, b.w, b.h, 7);
      ctx.fill();
      ctx.lineWidth = isSelected ? 2 : 1;
      ctx.strokeStyle = isSelected
        ? colour('--focus')
        : n.id === this.hovered
          ? colour('--text-3')
          : facts.state === 'failed'
            ? ink
            : colour('--line-strong');
      ctx.stroke();
      if (this.critical && n.critical) {
        ctx.fillStyle = colour('--s-attention');
        ctx.beginPath();
        ctx.roundRect(b.x, b.y - 1, b.w, 3, 2);
        ctx.fill();
      }
    }
    if (this.scale < 0.22) {
      // From afar a box is its state.
      ctx.fillStyle = ink;
      ctx.fillRect(b.x, b.y, b.w, Math.min(b.h, 46));
      if (n.open) this.paintCells(b);
      return;
    }
    this.mark(facts.state, b.x + 11, b.y + 11, 14);
    if (this.scale >= 0.34) {
      ctx.font = `550 12.5px ${colour('--sans')}`;
      ctx.textBaseline = 'middle';
      ctx.fillStyle = colour('--text');
      const noteRoom = n.open || n.kind === 'group' ? 60 : 30;
      ctx.fillText(this.clip(n.label, b.w - 44 - noteRoom), b.x + 32, b.y + 18);
      ctx.font = `400 11px ${colour('--sans')}`;
      ctx.fillStyle = colour('--text-3');
      if (!n.open) {
        ctx.fillText(
          this.clip(facts.note, b.w - (facts.parts.length ? 112 : 44)),
          b.x + 32,
          b.y + 34,
        );
      } else {
        ctx.textAlign = 'right';
        ctx.fillText(facts.note, b.x + b.w - 28, b.y + 18);
        ctx.textAlign = 'left';
      }
    }
    if (!n.open && facts.total > 1) this.bar(b.x + b.w - 74, b.y + 31, 62, 5, facts);
    if (n.canOpen && this.scale >= 0.34) this.chevron(b.x + b.w - 17, b.y + 17, n.open);
    if (n.open && n.kind === 'step') this.paintCells(b);
  }

  private mark(state: string, x: number, y: number, size: number): void {
    const { ctx } = this;
    const p = shape(state);
    ctx.save();
    ctx.translate(x, y);
    ctx.scale(size / 16, size / 16);
    if (p.fill) {
      ctx.fillStyle = tone(state);
      ctx.fill(p.fill, 'evenodd');
    }
    if (p.stroke) {
      ctx.strokeStyle = tone(state);
      ctx.lineWidth = 1.7;
      ctx.lineCap = 'round';
      ctx.lineJoin = 'round';
      ctx.stroke(p.stroke);
    }
    ctx.restore();
  }

  private chevron(x: number, y: number, open: boolean): void {
    const { ctx } = this;
    ctx.strokeStyle = colour('--text-3');
    ctx.lineWidth = 1.4;
    ctx.beginPath();
    if (open) {
      ctx.moveTo(x - 4, y + 2);
      ctx.lineTo(x, y - 2);
      ctx.lineTo(x + 4, y + 2);
    } else {
      ctx.moveTo(x - 4, y - 2);
      ctx.lineTo(x, y + 2);
      ctx.lineTo(x + 4, y - 2);
    }
    ctx.stroke();
  }

  private bar(x: number, y: number, w: number, h: number, facts: BoxFacts): void {
    const { ctx } = this;
    ctx.fillStyle = colour('--pressed');
    ctx.beginPath();
    ctx.roundRect(x, y, w, h, h / 2);
    ctx.fill();
    ctx.save();
    ctx.clip();
    let at = x;
    for (const [state, n] of facts.parts) {
      const width = Math.max(1.5, (n / facts.total) * w);
      ctx.fillStyle = tone(state);
      ctx.fillRect(at, y, width, h);
      at += width;
    }
    ctx.restore();
  }

  private paintCells(b: Box): void {
    const { ctx } = this;
    const cells = this.source.cells(b.node.id);
    const { columns, tasks } = b.node;
    if (tasks <= ROWS_MAX) {
      const rows = Math.ceil(tasks / columns);
      const w = b.w / columns;
      ctx.font = `400 11.5px ${colour('--sans')}`;
      ctx.textBaseline = 'middle';
      cells.forEach((c, i) => {
        const x = b.x + Math.floor(i / rows) * w;
        const y = b.y + HEAD_H + (i % rows) * ROW_H;
        if (c.task === this.selectedTask) {
          ctx.fillStyle = colour('--accent-soft');
          ctx.fillRect(x + 4, y, w - 8, ROW_H);
        }
        this.mark(c.state, x + 12, y + 4, 12);
        if (this.scale >= 0.34) {
          ctx.fillStyle = colour('--text-2');
          ctx.fillText(this.clip(c.label, w - 44), x + 32, y + ROW_H / 2 + 0.5);
        }
      });
      return;
    }
    const pitch = CELL + CELL_GAP;
    const by = new Map<string, number[]>();
    cells.forEach((c, i) => {
      const list = by.get(c.state);
      if (list) list.push(i);
      else by.set(c.state, [i]);
    });
    for (const [state, list] of by) {
      ctx.fillStyle = state === 'waiting' ? colour('--pressed') : tone(state);
      for (const i of list)
        ctx.fillRect(
          b.x + PAD + (i % columns) * pitch,
          b.y + HEAD_H + Math.floor(i / columns) * pitch,
          CELL,
          CELL,
        );
    }
    const at = cells.findIndex((c) => c.task === this.selectedTask);
    if (at >= 0) {
      ctx.strokeStyle = colour('--text');
      ctx.lineWidth = 2;
      ctx.strokeRect(
        b.x + PAD + (at % columns) * pitch - 1,
        b.y + HEAD_H + Math.floor(at / columns) * pitch - 1,
        CELL + 2,
        CELL + 2,
      );
    }
  }

  private clip(text: string, width: number): string {
    const { ctx } = this;
    if (ctx.measureText(text).width <= width) return text;
    let lo = 0;
    let hi = text.length;
    while (lo < hi) {
      const mid = (lo + hi + 1) >> 1;
      if (ctx.measureText(`${text.slice(0, mid)}…`).width <= width) lo = mid;
      else hi = mid - 1;
    }
    return `${text.slice(0, lo)}…`;
  }
}
