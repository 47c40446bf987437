// From rows to pixels and back. A browser draws no element higher than 33,554,400 px (Chromium), so
// beyond a limit the scrolled height stands still and positions are scaled: the bar reaches every
// row, and rows in view are placed at their own distance.

export const HEIGHT_MAX = 8_000_000;

export class Span {
  readonly full: number;
  readonly height: number;

  constructor(
    readonly rows: number,
    readonly rowHeight: number,
    readonly view: number,
  ) {
    this.full = rows * rowHeight;
    this.height = Math.min(this.full, HEIGHT_MAX);
  }

  /** Where in all rows the top of the view is, in pixels of the full height. */
  at(scroll: number): number {
    if (this.full === this.height) return scroll;
    const most = Math.max(1, this.height - this.view);
    return (Math.min(scroll, most) / most) * (this.full - this.view);
  }

  /** The rows in view, `more` of them on both sides: from, to (not included). */
  visible(scroll: number, more: number): [number, number] {
    const at = this.at(scroll);
    const first = Math.max(0, Math.floor(at / this.rowHeight) - more);
    const last = Math.min(this.rows, Math.ceil((at + this.view) / this.rowHeight) + more);
    return [Math.min(first, last), last];
  }

  /** Where row i stands inside the scrolled area, for this position of the bar. */
  top(i: number, scroll: number): number {
    return this.full === this.height
      ? i * this.rowHeight
      : scroll + i * this.rowHeight - this.at(scroll);
  }

  /** The position of the bar at which row i is wholly in view, moving as little as needed. */
  scrollTo(i: number, scroll: number): number {
    const at = this.at(scroll);
    const top = i * this.rowHeight;
    let to = at;
    if (top < at) to = top;
    else if (top + this.rowHeight > at + this.view) to = top + this.rowHeight - this.view;
    return this.back(to);
  }

  /** The position of the bar for a place in all rows. */
  back(at: number): number {
    if (this.full === this.height) return Math.max(0, at);
    const most = Math.max(1, this.height - this.view);
    return Math.max(0, Math.min(most, (at / Math.max(1, this.full - this.view)) * most));
  }
}
