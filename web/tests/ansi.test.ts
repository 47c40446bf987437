import { describe, expect, it } from 'vitest';
import { colour256, parse, plain } from '../src/log/ansi';

describe('ansi', () => {
  it('leaves a plain line alone', () => {
    expect(parse('epoch 3: loss 0.1')).toEqual([{ text: 'epoch 3: loss 0.1', style: null }]);
    expect(parse('')).toEqual([]);
  });
  it('knows colours, weights and their ends', () => {
    const p = parse('\x1b[1;31mbad\x1b[0m and \x1b[32mgood\x1b[39m.');
    expect(p.map((x) => x.text)).toEqual(['bad', ' and ', 'good', '.']);
    expect(p[0]!.style).toMatchObject({ fg: 'c1', bold: true });
    expect(p[1]!.style).toBeNull();
    expect(p[2]!.style).toMatchObject({ fg: 'c2', bold: false });
    expect(p[3]!.style).toBeNull();
  });
  it('knows 256 colours and true colour, in both spellings', () => {
    expect(parse('\x1b[38;5;196mx')[0]!.style!.fg).toBe('#ff0000');
    expect(parse('\x1b[48;2;1;2;3mx')[0]!.style!.bg).toBe('#010203');
    expect(parse('\x1b[38:5:12mx')[0]!.style!.fg).toBe('c12');
    expect(colour256(16)).toBe('#000000');
    expect(colour256(231)).toBe('#ffffff');
    expect(colour256(232)).toBe('#080808');
    expect(colour256(255)).toBe('#eeeeee');
  });
  it('drops what moves a cursor, sets a title or is cut off', () => {
    expect(plain('a\x1b[2Kb\x1b]0;title\x07c\x1b[?25ld\x1b(Be\x1b')).toBe('abcde');
    expect(plain('\x1b[')).toBe('');
    expect(plain('a\x1b[3')).toBe('a');
    expect(plain('x\x00\x07\x08y\tz')).toBe('xy\tz');
  });
  it('shows what a progress bar wrote last', () => {
    expect(plain('10%\r50%\r100%')).toBe('100%');
    expect(plain('done\r')).toBe('done');
  });
  it('takes numbers that no terminal has', () => {
    expect(plain('\x1b[38;5;999mx\x1b[38;2mz\x1b[999my')).toBe('xzy');
    expect(parse('\x1b[38;2;300;1;5mx')[0]!.style!.fg).toBe('#ff0105');
  });
  it('never makes markup of text', () => {
    expect(plain('<img src=x onerror=alert(1)>')).toBe('<img src=x onerror=alert(1)>');
  });
  it('loses no letter of random mixtures', () => {
    let s = 11;
    const r = () => (s = (s * 1103515245 + 12345) & 0x7fffffff) / 0x7fffffff;
    for (let k = 0; k < 300; k++) {
      let text = '';
      let want = '';
      for (let i = 0; i < 20; i++)
        if (r() < 0.5) text += `\x1b[${Math.floor(r() * 110)}${r() < 0.3 ? ';1' : ''}m`;
        else {
          const c = String.fromCharCode(97 + Math.floor(r() * 26));
          text += c;
          want += c;
        }
      expect(plain(text)).toBe(want);
    }
  });
});
