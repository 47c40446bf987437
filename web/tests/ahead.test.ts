import { describe, expect, it } from 'vitest';
import { ahead, answerWith, request } from '../src/api/request';

describe('what is asked ahead', () => {
  it('is asked once, and given to the first who asks the same', async () => {
    const asked: string[] = [];
    answerWith((to) => {
      asked.push(to);
      return Response.json({ n: asked.length });
    });
    const here = ahead(() => void request('GET', '/api/v1/x', { project: 'p' }));
    expect(asked).toEqual(['/api/v1/x?project=p']);
    await here;
    expect(await request('GET', '/api/v1/y')).toEqual({ n: 2 });
    expect(await request('GET', '/api/v1/x', { project: 'p' })).toEqual({ n: 1 });
    expect(await request('GET', '/api/v1/x', { project: 'p' })).toEqual({ n: 3 });
  });
  it('tells its problem to who takes it', async () => {
    answerWith(() => Promise.reject(new Error('no line')));
    void ahead(() => void request('GET', '/api/v1/x'));
    await expect(request('GET', '/api/v1/x')).rejects.toMatchObject({ status: 0 });
  });
  it('is never a change', async () => {
    const sent: string[] = [];
    answerWith((to, how) => {
      sent.push(`${how.method} ${to}`);
      return Response.json({});
    });
    void ahead(() => void request('GET', '/api/v1/x'));
    await request('POST', '/api/v1/x', {}, {});
    expect(sent).toEqual(['GET /api/v1/x', 'POST /api/v1/x']);
  });
});
