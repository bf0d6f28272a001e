'use server'

import { appendFile, readFile } from 'node:fs/promises'

// A file, so that it can be told from outside what was signed, and how often.
const BOOK = 'guests.txt'

export async function guests() {
  const text = await readFile(BOOK, 'utf8').catch(() => '')
  return text.split('\n').filter(Boolean)
}

export async function sign(_, form) {
  await appendFile(BOOK, form.get('name') + '\n')
  return guests()
}
