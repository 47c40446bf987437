// A log of any size, by lines: an index says where each thousandth line begins, blocks between two of
// them are fetched when they come into view, and a few are kept. Before the index is there, the end
// of the log is: what people look at first.
//
// Nothing is ever held whole: at most BLOCKS blocks and one tail. New bytes of a running task are
// appended to the last block and to the index.

import * as api from '../api';
import { fetchRaw, type Query } from '../api/request';
import { logPath, logQuery, type LogPlace, readTail, TAIL_BYTES } from './place';

export const EVERY = 1000;
const BLOCKS = 12;
const PART_BYTES = 1 << 20; // what one answer has at most
const BLOCK_PARTS = 4; // of a block with huge lines, this many parts are fetched
const GROW_BYTES = 512 << 10;

interface Block {
  lines: string[];
  /** The end of the block's bytes wasn't fetched. */
  cut: boolean;
}

export class LogSource {
  lines = 0;
  bytes = 0;
  /** false: `lines` counts only the end of the log; numbers aren't known yet. */
  indexed = false;
  ready = false;
  problem: api.Problem | null = null;
  firstError: number | null = null;
  offsets: number[] = [0];
  private every = EVERY;
  private blocks = new Map<number, Block>();
  private asked = new Set<number>();
  private tail: string[] = [];
  private whole = false; // an older server: all lines are in `tail`
  private stop = new AbortController();
  private growing = false;
  private openEnd = false; // the last line has no newline yet

  constructor(
    readonly place: LogPlace,
    private changed: () => void,
  ) {
    void this.open();
  }

  close(): void {
    this.stop.abort();
  }

  private query(more: Query = {}): Query {
    return logQuery(this.place, more);
  }

  private async read(q: Query): Promise<Uint8Array> {
    const a = await fetchRaw(
      'GET',
      logPath(this.place),
      this.query(q),
      undefined,
      this.stop.signal,
    );
    return new Uint8Array(await a.arrayBuffer());
  }

  private async text(q: Query): Promise<string> {
    return new TextDecoder().decode(await this.read(q));
  }

  private async open(): Promise<void> {
    const index = this.readIndex();
    try {
      // The end of a large log is here long before its index.
      const end = new Uint8Array(
        await (await readTail(this.place, this.stop.signal)).arrayBuffer(),
      );
      const text = new TextDecoder().decode(end);
      if (!this.indexed) {
        const full = this.place.rank === null && end.length >= TAIL_BYTES;
        this.tail = split(full ? text.slice(text.indexOf('\n') + 1) : text);
        this.lines = this.tail.length;
        this.ready = true;
        this.changed();
      }
    } catch (e) {
      if ((e as Error).name === 'AbortError') return;
      if ((e as api.Problem).status === 400) await this.readWhole();
      else await this.fail(e as api.Problem);
      return;
    }
    await index;
  }

  private async fail(p: api.Problem): Promise<void> {
    if (p.status === 404) {
      this.ready = true; // no log: nothing was printed
      this.indexed = true;
      this.lines = 0;
    } else this.problem = p;
    this.changed();
  }

  private async readWhole(): Promise<void> {
    try {
      this.tail = split(await this.text({ lines: 20000 }));
      this.lines = this.tail.length;
      this.whole = this.indexed = this.ready = true;
      this.changed();
    } catch (e) {
      if ((e as Error).name !== 'AbortError') await this.fail(e as api.Problem);
    }
  }

  private async readIndex(): Promise<void> {
    try {
      const i = await api.logIndex(this.place.run, this.query(), this.stop.signal);
      // The index counts line ends: what stands behind the last one is a line, too. A rank's lines
      // are counted by their beginnings.
      const last =
        i.bytes > 0 && this.place.rank === null
          ? await this.read({ offset: i.bytes - 1, bytes: 1 })
          : null;
      this.openEnd = !!last && last.length > 0 && last[0] !== 10;
      this.every = i.every || EVERY;
      this.offsets = i.offsets.length ? i.offsets : [0];
      this.bytes = i.bytes;
      this.lines = i.lines + (this.openEnd ? 1 : 0);
      this.firstError = i.first_error ? i.first_error.line + 1 : null;
      this.indexed = true;
      this.ready = true;
      this.seed();
      this.changed();
    } catch {
      // The end of the log is shown without numbers.
    }
  }

  /** The tail is the end of the last blocks: with it the last lines don't have to be fetched again. */
  private seed(): void {
    const last = Math.max(0, this.offsets.length - 1);
    const from = last * this.every;
    const n = this.lines - from;
    if (n >= 0 && n <= this.tail.length)
      this.blocks.set(last, { lines: n ? this.tail.slice(-n) : [], cut: false });
  }

  /** Line i (from 0), or undefined while it is fetched; null: of a block too large to fetch. */
  line(i: number): string | null | undefined {
    if (!this.indexed || this.whole) return this.tail[i];
    const b = Math.floor(i / this.every);
    const block = this.blocks.get(b);
    if (!block) {
      void this.fetchBlock(b);
      return undefined;
    }
    // The newest use is last: the first one goes when there are too many.
    this.blocks.delete(b);
    this.blocks.set(b, block);
    const text = block.lines[i - b * this.every];
    return text === undefined ? (block.cut ? null : '') : text;
  }

  /** The lines of one rank from a place in the log on. They stand far apart where there are many. */
  private async rankLines(from: number, to: number, lines: number): Promise<string[]> {
    const found: string[] = [];
    for (let at = from; at < to && found.length < lines;) {
      const part = await api.logRange(
        this.place.run,
        this.query({ offset: at, lines: lines - found.length }),
        this.stop.signal,
      );
      if (part.bytes === 0) break;
      at += part.bytes;
      found.push(...split(part.text));
    }
    return found;
  }

  private async fetchBlock(b: number): Promise<void> {
    if (this.asked.has(b)) return;
    const from = this.offsets[b];
    if (from === undefined) return;
    this.asked.add(b);
    const to = this.offsets[b + 1] ?? this.bytes;
    if (this.place.rank !== null) {
      await this.fetchRankBlock(b, from, to);
      return;
    }
    try {
      const n = Math.min(PART_BYTES * BLOCK_PARTS, to - from);
      const decoder = new TextDecoder();
      let text = '';
      for (let at = from; at < from + n; at += PART_BYTES)
        text += decoder.decode(
          await this.read({ offset: at, bytes: Math.min(PART_BYTES, from + n - at) }),
          { stream: true },
        );
      this.keep(b, { lines: split(text), cut: n < to - from });
    } catch (e) {
      if ((e as Error).name !== 'AbortError') {
        this.problem = e as api.Problem;
        this.changed();
      }
    }
    this.asked.delete(b);
  }

  private async fetchRankBlock(b: number, from: number, to: number): Promise<void> {
    try {
      this.keep(b, { lines: await this.rankLines(from, to, this.every), cut: false });
    } catch (e) {
      if ((e as Error).name !== 'AbortError') {
        this.problem = e as api.Problem;
        this.changed();
      }
    }
    this.asked.delete(b);
  }

  private keep(b: number, block: Block): void {
    this.blocks.set(b, block);
    for (const k of this.blocks.keys()) {
      if (this.blocks.size <= BLOCKS) break;
      this.blocks.delete(k);
    }
    this.changed();
  }

  /** Of a rank, the index tells what is new; the last block is read again. */
  private async growRank(): Promise<boolean> {
    const before = this.lines;
    await this.readIndex();
    if (this.lines === before) return false;
    const b = Math.floor(before / this.every);
    for (const k of [...this.blocks.keys()]) if (k >= b) this.blocks.delete(k);
    await this.fetchBlock(Math.floor(Math.max(0, this.lines - 1) / this.every));
    return true;
  }

  /** Reads what was printed since. True when there was something. */
  async grow(): Promise<boolean> {
    if (this.growing) return false;
    this.growing = true;
    try {
      if (this.place.rank !== null && !this.whole) return await this.growRank();
      if (this.whole) {
        const n = this.lines;
        await this.readWhole();
        return this.lines !== n;
      }
      if (!this.indexed) {
        await this.readIndex();
        return this.indexed;
      }
      const more = await this.read({ offset: this.bytes, bytes: GROW_BYTES });
      if (more.length === 0) return false;
      this.append(more);
      this.changed();
      return true;
    } catch {
      return false; // the next turn tries again
    } finally {
      this.growing = false;
    }
  }

  private append(more: Uint8Array): void {
    const decoder = new TextDecoder();
    for (let from = 0; from < more.length;) {
      const newline = more.indexOf(10, from);
      const to = newline < 0 ? more.length : newline;
      const part = decoder.decode(more.subarray(from, to));
      if (this.openEnd && this.lines > 0) {
        const block = this.blocks.get(Math.floor((this.lines - 1) / this.every));
        if (block)
          block.lines[block.lines.length - 1] = (block.lines[block.lines.length - 1] ?? '') + part;
      } else {
        const b = Math.floor(this.lines / this.every);
        if (this.lines % this.every === 0) {
          this.offsets[b] = this.bytes + from;
          this.blocks.set(b, { lines: [], cut: false });
        }
        this.blocks.get(b)?.lines.push(part);
        this.lines++;
      }
      this.openEnd = newline < 0;
      from = to + 1;
    }
    this.bytes += more.length;
  }

  /** The text of some lines, for the clipboard. */
  async range(from: number, to: number): Promise<string> {
    const out: string[] = [];
    for (let i = from; i <= to && i < this.lines; i++) {
      let l = this.line(i);
      for (let tries = 0; l === undefined && tries < 100; tries++) {
        await this.fetchBlock(Math.floor(i / this.every));
        l = this.line(i);
      }
      out.push(l ?? '');
    }
    return out.join('\n');
  }
}

/** Lines of a text; a newline at its end begins no line. */
export function split(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines[lines.length - 1] === '') lines.pop();
  return lines;
}
