import { describe, expect, it } from 'vitest';
import { matchRoute, part, url } from '../src/base/route';

describe('addresses', () => {
  it('match, decode and give the last part its slashes', () => {
    expect(matchRoute('/', '/')).toEqual({});
    expect(matchRoute('/runs', '/runs/')).toEqual({});
    expect(matchRoute('/runs/{run}', '/runs/abc')).toEqual({ run: 'abc' });
    expect(matchRoute('/runs/{run}/tasks/{task}', '/runs/a/tasks/q/drift%5Bx=1%5D')).toEqual({
      run: 'a',
      task: 'q/drift[x=1]',
    });
    expect(matchRoute('/runs/{run}/reproduce', '/runs/a')).toBeNull();
    expect(matchRoute('/runs', '/store')).toBeNull();
    expect(matchRoute('/runs/{run}', '/runs/%')).toBeNull();
  });
  it('are made so that they are read back', () => {
    for (const task of ['train[fold=0,lr=0.1]', 'a/b', 'ä ö?#%', '<script>', "it's"])
      expect(matchRoute('/runs/{run}/tasks/{task}', `/runs/r/tasks/${part(task)}`)).toEqual({
        run: 'r',
        task,
      });
  });
  it('leave out what is empty', () => {
    expect(url('/runs', { state: null, q: '', all: false })).toBe('/runs');
    expect(url('/runs', { q: 'a b', all: true })).toBe('/runs?q=a+b&all=1');
    expect(new URL(`http://x${url('/c', { runs: 'a,b&c' })}`).searchParams.get('runs')).toBe(
      'a,b&c',
    );
  });
});
