'use client'

import { useActionState } from 'react'
import { sign } from './actions'

export function Book({ guests }) {
  const [signed, act] = useActionState(sign, guests)
  return (
    <form action={act}>
      <input name="name" required />
      <button>Sign</button>
      <p id="guests">{signed.join(', ')}</p>
    </form>
  )
}
