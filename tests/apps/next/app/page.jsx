import { guests } from './actions'
import { Book } from './book'

// Rendered for every request, since the book changes.
export const dynamic = 'force-dynamic'

export default async function Page() {
  return (
    <main>
      <h1>Hello from Next</h1>
      <Book guests={await guests()} />
    </main>
  )
}
