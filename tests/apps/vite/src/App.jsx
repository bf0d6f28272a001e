import { useState } from 'react'

export function App() {
  const [count, setCount] = useState(0)
  return (
    <main>
      <h1>Hello from Vite</h1>
      <button onClick={() => setCount(count + 1)}>clicked {count}</button>
    </main>
  )
}
